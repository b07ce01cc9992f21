"""The list of alerts, the page of each with its history, and the form for an alert."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from litestar import Response

from penstock.accounts.mail.service import Mailer
from penstock.accounts.members.service import MemberService
from penstock.alerts.model import DeliveryState, MessageKind, Verdict
from penstock.alerts.schema import AlertDeliveryRecord, AlertMessageRecord, AlertRecord
from penstock.alerts.service import AlertService
from penstock.base.clock import iso, parse_time
from penstock.base.paging import MAX_PAGE_SIZE, Page
from penstock.base.rates import level_words
from penstock.base.wording import count_of
from penstock.funnels.definitions.ad_hoc import describe_window
from penstock.funnels.saved.service import FunnelService
from penstock.http.schema import PageQuery, SearchQuery
from penstock.web.page_routes import page
from penstock.web.pages.alerts.schema import NewAlertQuery
from penstock.web.view import View

_SNOOZES = {"an hour": 1, "a day": 24, "three days": 72, "a week": 168}
"""Hours of a snooze, by its name."""
_PARAMETERS = {
    "websiteId": "website or app",
    "filters": "filters",
    "window": "conversion window",
    "segment": "segment",
    "internal": "internal traffic",
    "cohort": "cohort",
}
"""Parameters of a report that its alert keeps, with their names on pages."""
_SELECTING = ("websiteId", "filters", "segment", "cohort")
"""Parameters that select part of the entries."""
_INPUTS = ("interval", "timezone")
"""Parameters for which the form has inputs."""


class _Watched(NamedTuple):
    """The subject of an alert, in words around a name that people or clients chose. name: may be
    empty.
    """

    before: str
    name: str
    after: str


class _Names(NamedTuple):
    """Names of funnels and websites by ID."""

    funnels: Mapping[str, str]
    websites: Mapping[str, str]

    def watched(self, condition: Mapping[str, Any]) -> _Watched:
        """Describe what a condition watches: `Checkout: below 60% on a day`."""
        minutes = count_of(condition.get("minutes", 0), "minute")
        website = self.websites.get(condition.get("websiteId", ""), "")
        where = f" on {website}" if website else ""
        match condition["kind"]:
            case "rate":
                parameters = condition.get("parameters", {})
                funnel = self.funnels.get(condition["funnelId"], "A deleted funnel")
                level = condition.get("level")
                when = condition["when"].replace("_", " ")
                limit = "unusual" if level is None else f"{when} {level_words(level)}"
                part = ", part of the entries" if {*parameters} & {*_SELECTING} else ""
                steps = ""
                if "fromStep" in parameters:
                    steps = f" from step {parameters['fromStep']} to step {parameters['toStep']}"
                window = parameters.get("window")
                within = f" within {describe_window(window)}" if window else ""
                period = "in a week" if parameters.get("interval") == "week" else "on a day"
                return _Watched("", funnel, f"{steps}{within}: {limit} {period}{part}")
            case "silence":
                return _Watched("No event ", condition["event"], f" for {minutes}{where}")
            case "rejections":
                share = level_words(condition["level"])
                return _Watched(f"More than {share} rejected events{where}", "", "")
            case _:
                return _Watched(f"Events wait for more than {minutes}", "", "")


def _names(view: View, funnels: FunnelService) -> _Names:
    return _Names(funnels.names(view.workspace_id), view.website_names)


def _state(alert: AlertRecord, now_ms: int) -> tuple[str, str]:
    """Return the state of an alert in a word, and the tone of its badge."""
    if alert.paused:
        return "Paused", ""
    if alert.problem:
        return "Cannot check", "warn"
    if alert.snoozed_until is not None and parse_time(alert.snoozed_until) > now_ms:
        return "Snoozed", "info"
    return {
        Verdict.ALARMING: ("Alarming", "bad"),
        Verdict.FINE: ("Fine", "good"),
        Verdict.UNDECIDED: ("Not decided yet", ""),
    }[alert.verdict]


@page("/alerts")
def list_page(view: View, alerts: AlertService, funnels: FunnelService) -> Response[bytes]:
    query = view.query(SearchQuery)
    return view.render(
        "alerts/list.html",
        parts=("list",),
        alerts=alerts.page(view.workspace_id, query.pagination, query.search),
        names=_names(view, funnels),
        state_of=_state,
        search=query.search,
    )


@page("/alerts/new")
def new_page(
    view: View, funnels: FunnelService, members: MemberService, mailer: Mailer
) -> Response[bytes]:
    query = view.query(NewAlertQuery, view.websites)
    funnel = None if query.funnel_id is None else funnels.get(view.workspace_id, query.funnel_id)
    condition: dict[str, Any] = {"kind": "rate", "when": "unusual"}
    name = None if funnel is None else funnel.name
    if funnel is not None:
        sent = query.parameters(view.now_ms).items()
        parameters = {name: value for name, value in sent if name in _PARAMETERS}
        condition |= {"funnelId": funnel.id, "parameters": parameters}
    return _form(view, funnels, members, mailer, condition, funnel_name=name)


@page("/alerts/{alert_id:str}/edit")
def edit_page(
    view: View,
    alert_id: str,
    alerts: AlertService,
    funnels: FunnelService,
    members: MemberService,
    mailer: Mailer,
) -> Response[bytes]:
    alert = alerts.get(view.workspace_id, alert_id)
    return _form(view, funnels, members, mailer, alert.condition, alert=alert)


def _form(
    view: View,
    funnels: FunnelService,
    members: MemberService,
    mailer: Mailer,
    condition: Mapping[str, Any],
    *,
    alert: AlertRecord | None = None,
    funnel_name: str | None = None,
) -> Response[bytes]:
    parameters = condition.get("parameters", {})
    listed = members.members(view.workspace_id, Page(1, MAX_PAGE_SIZE))
    channels = {each.user_id: each.id for each in (alert.channels if alert else []) if each.user_id}
    hidden = {name: value for name, value in parameters.items() if name not in _INPUTS}
    return view.render(
        "alerts/form.html",
        alert=alert,
        condition=condition,
        hidden=hidden,
        kept=[_PARAMETERS.get(name, name) for name in hidden],
        funnel_name=funnel_name,
        names=_names(view, funnels),
        receivers=[(member, channels.get(member.user_id)) for member in listed.data],
        sends_mails=mailer.is_set_up,
    )


def _is_being_sent(message: AlertMessageRecord, delivery: AlertDeliveryRecord) -> bool:
    """Whether a test is on its way. While a node sends it, it is due only after the lease."""
    return message.kind is MessageKind.TEST and delivery.error is None


@page("/alerts/{alert_id:str}")
def alert_page(
    view: View,
    alert_id: str,
    alerts: AlertService,
    funnels: FunnelService,
    members: MemberService,
) -> Response[bytes]:
    alert = alerts.get(view.workspace_id, alert_id)
    messages = alerts.messages(view.workspace_id, alert_id, Page(1, 20))
    changes = (each for each in messages.data if each.kind != MessageKind.TEST)
    people = members.members(view.workspace_id, Page(1, MAX_PAGE_SIZE)).data
    return view.render(
        "alerts/alert.html",
        parts=("state", "history", "messages"),
        alert=alert,
        state=_state(alert, view.now_ms),
        checks=alerts.checks(view.workspace_id, alert_id, view.query(PageQuery).pagination),
        messages=messages,
        sends=any(
            each.state is DeliveryState.WAITING
            and (parse_time(each.due_at) <= view.now_ms or _is_being_sent(message, each))
            for message in messages.data
            for each in message.deliveries
        ),
        last_change=next(changes, None),
        names=_names(view, funnels),
        emails={member.user_id: member.email for member in people},
        snoozes=[
            (iso(view.now_ms + hours * 3_600_000), f"For {name}")
            for name, hours in _SNOOZES.items()
        ],
    )


ROUTES = (list_page, new_page, edit_page, alert_page)
