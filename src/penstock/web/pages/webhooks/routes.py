"""The list of webhooks, the page of each with its deliveries, and the form for a webhook."""

from litestar import Response

from penstock.base.clock import iso
from penstock.funnels.saved.service import FunnelService
from penstock.http.schema import PageQuery
from penstock.settings import DAY_S
from penstock.web.page_routes import page
from penstock.web.view import View
from penstock.webhooks.model import WebhookEvent
from penstock.webhooks.schema import UnitWebhookRecord, WebhookState
from penstock.webhooks.service import WebhookService

_EVENTS = {
    WebhookEvent.ENTERED: ("Entered", "A unit completed step 1."),
    WebhookEvent.STEP_COMPLETED: ("Step completed", "A unit completed a later step."),
    WebhookEvent.COMPLETED: ("Completed", "A unit completed the last step."),
    WebhookEvent.DROPPED_OFF: ("Dropped off", "The window of a unit ended before that."),
    WebhookEvent.EXPIRING: ("Expiring", "The window of a unit ends soon."),
}
"""The name of each type of message, and when it is sent."""
_STATES = {
    WebhookState.ACTIVE: ("Active", "good"),
    WebhookState.HELD: ("On hold", "warn"),
    WebhookState.FAILING: ("Failing", "bad"),
    WebhookState.PAUSED: ("Paused", ""),
}
"""Each state in words, and the tone of its badge."""
_REPLAYS = {"hour": 1, "day": 24, "7 days": 168, "4 weeks": 672}
"""Hours of a replay, by their name."""
_OVERLAPS = {"for a day": DAY_S, "for 7 days": 7 * DAY_S, "for an hour": 3600, "no longer": 0}
"""Seconds for which earlier secrets stay valid, by their name."""


@page("/settings/webhooks")
def list_page(view: View, webhooks: WebhookService, funnels: FunnelService) -> Response[bytes]:
    return view.render(
        "webhooks/list.html",
        parts=("list",),
        webhooks=webhooks.page(view.reader.caller, view.query(PageQuery).pagination),
        last_deliveries=webhooks.last_deliveries(view.workspace_id),
        refusal=webhooks.refusal(view.workspace_id),
        funnel_names=funnels.names(view.workspace_id),
        events=_EVENTS,
        states=_STATES,
    )


@page("/settings/webhooks/new")
def new_page(view: View, webhooks: WebhookService, funnels: FunnelService) -> Response[bytes]:
    return _form(view, webhooks, funnels, None)


@page("/settings/webhooks/{webhook_id:str}/edit")
def edit_page(
    view: View, webhook_id: str, webhooks: WebhookService, funnels: FunnelService
) -> Response[bytes]:
    return _form(view, webhooks, funnels, webhooks.get(view.reader.caller, webhook_id))


def _form(
    view: View,
    webhooks: WebhookService,
    funnels: FunnelService,
    webhook: UnitWebhookRecord | None,
) -> Response[bytes]:
    return view.render(
        "webhooks/form.html",
        webhook=webhook,
        refusal=webhooks.refusal(view.workspace_id),
        funnel_names=funnels.names(view.workspace_id),
        events=_EVENTS,
    )


@page("/settings/webhooks/{webhook_id:str}")
def webhook_page(
    view: View, webhook_id: str, webhooks: WebhookService, funnels: FunnelService
) -> Response[bytes]:
    reader, pagination = view.reader.caller, view.query(PageQuery).pagination
    webhook = webhooks.get(reader, webhook_id)
    return view.render(
        "webhooks/webhook.html",
        parts=("webhook", "state", "deliveries"),
        webhook=webhook,
        last_delivery=webhooks.last_deliveries(view.workspace_id).get(webhook_id),
        refusal=webhooks.refusal(view.workspace_id),
        funnel=funnels.get(view.workspace_id, webhook.funnel_id),
        deliveries=webhooks.deliveries(reader, webhook_id, pagination),
        events=_EVENTS,
        states=_STATES,
        replays=[
            (iso(view.now_ms - hours * 3_600_000), f"The last {name}")
            for name, hours in _REPLAYS.items()
        ],
        overlaps=[(seconds, name.capitalize()) for name, seconds in _OVERLAPS.items()],
    )


ROUTES = (list_page, new_page, edit_page, webhook_page)
