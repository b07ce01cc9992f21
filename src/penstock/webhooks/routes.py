"""HTTP routes for webhooks."""

from penstock.accounts.model import Caller
from penstock.base.paging import Listing
from penstock.http.handlers import route
from penstock.http.schema import PageQuery
from penstock.http.scopes import KeyScope
from penstock.webhooks.schema import (
    DeliveryRecord,
    NewUnitWebhookRecord,
    ReplayIn,
    SecretIn,
    UnitWebhookRecord,
    WebhookChange,
    WebhookIn,
)
from penstock.webhooks.service import WebhookService

_ALL = "/api/webhooks"
_ONE = "/api/webhooks/{webhook_id:str}"
_SCOPES = (KeyScope.MANAGE,)
"""Also for reading, because URLs and responses of receivers may contain secrets."""


@route("POST", _ALL, "Create a webhook", tag="webhooks")
def create_webhook(
    caller: Caller, webhooks: WebhookService, webhook: WebhookIn
) -> NewUnitWebhookRecord:
    """Sends the outcomes of a funnel from now on. The secret is shown only once.

    Returns 409 if the workspace shares figures only, and 422 with the reason if the outcomes of the
    funnel cannot be stored. A workspace has at most 20 webhooks.
    """
    return webhooks.create(caller, webhook)


@route("GET", _ALL, "Webhooks", scopes=_SCOPES, tag="webhooks")
def list_webhooks(
    caller: Caller, webhooks: WebhookService, query: PageQuery
) -> Listing[UnitWebhookRecord]:
    """Lists webhooks, newest first."""
    return webhooks.page(caller, query.pagination)


@route("GET", _ONE, "A webhook", scopes=_SCOPES, tag="webhooks")
def read_webhook(caller: Caller, webhooks: WebhookService, webhook_id: str) -> UnitWebhookRecord:
    return webhooks.get(caller, webhook_id)


@route("PATCH", _ONE, "Change a webhook", tag="webhooks")
def change_webhook(
    caller: Caller, webhooks: WebhookService, webhook_id: str, change: WebhookChange
) -> UnitWebhookRecord:
    """Changes the fields that are sent. Waiting messages go to the new address."""
    return webhooks.change(caller, webhook_id, change)


@route("DELETE", _ONE, "Delete a webhook", tag="webhooks")
def delete_webhook(caller: Caller, webhooks: WebhookService, webhook_id: str) -> None:
    """Deletes a webhook with its waiting messages and its log."""
    webhooks.delete(caller, webhook_id)


@route("POST", f"{_ONE}/pause", "Pause a webhook", status=200, tag="webhooks")
def pause_webhook(caller: Caller, webhooks: WebhookService, webhook_id: str) -> UnitWebhookRecord:
    """Makes and sends no messages until the webhook is resumed."""
    return webhooks.pause(caller, webhook_id)


@route("POST", f"{_ONE}/resume", "Resume a webhook", status=200, tag="webhooks")
def resume_webhook(caller: Caller, webhooks: WebhookService, webhook_id: str) -> UnitWebhookRecord:
    """Sends what waits and what happened during the pause. A failed delivery is tried again now."""
    return webhooks.resume(caller, webhook_id)


@route("POST", f"{_ONE}/replay", "Send outcomes again", status=200, tag="webhooks")
def replay_webhook(
    caller: Caller, webhooks: WebhookService, webhook_id: str, replay: ReplayIn
) -> UnitWebhookRecord:
    """Sends all outcomes since a time, as they are now. Messages have the same IDs as before.

    The time may be earlier than the webhook, and at most 30 days ago.
    """
    return webhooks.replay(caller, webhook_id, replay.from_)


@route("POST", f"{_ONE}/secret", "Create another secret of a webhook", tag="webhooks")
def rotate_webhook_secret(
    caller: Caller, webhooks: WebhookService, webhook_id: str, secret: SecretIn
) -> NewUnitWebhookRecord:
    """Signs with the new secret, which is shown only once, and with the earlier ones for a day."""
    return webhooks.rotate(caller, webhook_id, secret.previous_valid_seconds)


@route("POST", f"{_ONE}/test", "Test a webhook", status=200, tag="webhooks")
async def test_webhook(caller: Caller, webhooks: WebhookService, webhook_id: str) -> DeliveryRecord:
    """Sends a message of type `test` now and returns the result, also if it failed."""
    return DeliveryRecord.from_delivery(await webhooks.test(caller, webhook_id))


@route("GET", f"{_ONE}/deliveries", "Deliveries of a webhook", scopes=_SCOPES, tag="webhooks")
def list_webhook_deliveries(
    caller: Caller, webhooks: WebhookService, webhook_id: str, query: PageQuery
) -> Listing[DeliveryRecord]:
    """Lists the last 200 requests to the receiver, newest first."""
    deliveries = webhooks.deliveries(caller, webhook_id, query.pagination)
    return deliveries.map(DeliveryRecord.from_delivery)


ROUTES = (
    create_webhook,
    list_webhooks,
    read_webhook,
    change_webhook,
    delete_webhook,
    pause_webhook,
    resume_webhook,
    replay_webhook,
    rotate_webhook_secret,
    test_webhook,
    list_webhook_deliveries,
)
