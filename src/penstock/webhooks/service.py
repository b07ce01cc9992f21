"""Use cases for webhooks. Methods block: call them from a worker thread, except `test`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import json
from sqlalchemy import Connection

from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.model import Caller, SigningSecret
from penstock.accounts.workspace.model import Contents
from penstock.accounts.workspace.service import WorkspaceService
from penstock.base.clock import iso
from penstock.base.errors import Conflict, Fault, Invalid, NotFound
from penstock.base.fair_queue import FairQueue, QueueLimits
from penstock.base.ids import ScopeId, VisitorId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.core import Core
from penstock.funnels.changes import OutcomeChanges, StoredFunnel
from penstock.http.scopes import KeyScope
from penstock.metadb.named import check_number
from penstock.metadb.person import Person, StoredRecord
from penstock.metadb.secret_box import SecretBox
from penstock.metadb.tables import webhooks
from penstock.outbound.sender import Outbound, new_signing_secret
from penstock.outbound.targets import site_of
from penstock.webhooks import store
from penstock.webhooks.deliveries import Deliverer
from penstock.webhooks.model import (
    MAX_WEBHOOKS,
    REMEMBERED_MS,
    Delivery,
    Webhook,
    WebhookEvent,
)
from penstock.webhooks.reasons import NOT_ALLOWED, lasting_reason
from penstock.webhooks.schema import (
    NewUnitWebhookRecord,
    UnitWebhookRecord,
    WebhookChange,
    WebhookIn,
)

MAX_SECRETS = 5
"""Maximum number of secrets of a webhook that are valid at once."""
_TESTS = QueueLimits(slots=8, slots_per_key=1, waiting=40, waiting_per_key=2)


class WebhookService:
    """Manages the webhooks of workspaces."""

    def __init__(
        self,
        core: Core,
        changes: OutcomeChanges,
        workspaces: WorkspaceService,
        outbound: Outbound,
        deliverer: Deliverer,
        box: SecretBox,
    ) -> None:
        self._database, self._clock = core.database, core.clock
        self._changes, self._workspaces = changes, workspaces
        self._outbound, self._deliverer, self._box = outbound, deliverer, box
        self._tests = FairQueue("tests", _TESTS)

    def create(self, actor: Caller, sent: WebhookIn) -> NewUnitWebhookRecord:
        """Create a webhook. Outcomes from now on are sent.

        Raises `Conflict` if the workspace shares figures only or has too many webhooks, `Invalid`
        if the URL is not allowed or the funnel's outcomes cannot be stored, `NotFound` for an
        unknown funnel and `Unauthorized` for a website of another workspace.
        """
        workspace_id, now_ms = actor.workspace_id, self._clock()
        if reason := self.refusal(workspace_id):
            raise Conflict(reason, code="figures_only")
        webhook = Webhook(
            id=new_id("whk", now_ms),
            workspace_id=workspace_id,
            name=sent.name,
            url=sent.url,
            funnel_id=sent.funnel_id,
            website_id=sent.website_id,
            events=tuple(sent.events),
            expiring_before_seconds=sent.expiring_before_seconds,
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
            starts_at_ms=now_ms,
        )
        self._check(webhook)
        with self._database.write() as db:
            nouns = "webhooks"
            check_number(db, webhooks, workspace_id, MAX_WEBHOOKS, nouns, code="too_many_webhooks")
            store.add(db, webhook)
            secret = self._add_secret(db, webhook.id, now_ms)
            self._audit(db, actor, Action.WEBHOOK_CREATED, webhook, webhook.funnel_id)
            return self._record(db, webhook, secret)

    def refusal(self, workspace_id: WorkspaceId) -> str | None:
        """Return why the webhooks of a workspace may send nothing; None if they may."""
        shared = self._workspaces.shared_contents(workspace_id)
        return None if shared.level is Contents.UNITS else NOT_ALLOWED

    def page(self, reader: Caller, page: Page) -> Listing[UnitWebhookRecord]:
        with self._database.read() as db:
            listed = store.page(db, reader.workspace_id, page)
            return listed.map(lambda webhook: self._plain_record(db, _shown_to(reader, webhook)))

    def get(self, reader: Caller, webhook_id: str) -> UnitWebhookRecord:
        with self._database.read() as db:
            webhook = _existing(store.find(db, reader.workspace_id, webhook_id))
            return self._plain_record(db, _shown_to(reader, webhook))

    def change(self, actor: Caller, webhook_id: str, sent: WebhookChange) -> UnitWebhookRecord:
        """Change fields of a webhook. Raises the same errors as `create`."""
        values = sent.model_dump(exclude_unset=True)
        if "events" in values:
            values["events"] = tuple(values["events"])
        with self._database.read() as db:
            before = _existing(store.find(db, actor.workspace_id, webhook_id))
        after = before._replace(**values)
        self._check(after)
        return self._update(actor, webhook_id, sorted(values), **values, problem=None)

    def delete(self, actor: Caller, webhook_id: str) -> None:
        """Delete a webhook with its waiting messages and its log."""
        with self._database.write() as db:
            webhook = _existing(store.find(db, actor.workspace_id, webhook_id))
            store.delete_webhook(db, actor.workspace_id, webhook_id)
            self._audit(db, actor, Action.WEBHOOK_DELETED, webhook)

    def pause(self, actor: Caller, webhook_id: str) -> UnitWebhookRecord:
        """Neither make nor send messages until `resume`."""
        return self._update(actor, webhook_id, ["paused"], paused_at=self._clock())

    def resume(self, actor: Caller, webhook_id: str) -> UnitWebhookRecord:
        """Send what waits, and what happened during the pause. A failed delivery is tried again."""
        return self._update(
            actor,
            webhook_id,
            ["resumed"],
            paused_at=None,
            failures=0,
            failing_since=None,
            next_try_at=0,
        )

    def replay(self, actor: Caller, webhook_id: str, from_ms: int) -> UnitWebhookRecord:
        """Send outcomes since a time again, as they are now. Raises `Invalid` for an earlier time
        than 30 days ago.
        """
        if from_ms < self._clock() - REMEMBERED_MS:
            message = "Must be at most 30 days ago."
            raise Invalid([Fault("from", "out_of_range", message)])
        with self._database.write() as db:
            webhook = _existing(store.find(db, actor.workspace_id, webhook_id, lock=True))
            store.forget_units(db, webhook_id, from_ms)
            starts_ms = min(webhook.starts_at_ms, from_ms)
            store.change(db, webhook, position="", starts_at=starts_ms)
            self._audit(db, actor, Action.WEBHOOK_CHANGED, webhook, f"replay from {iso(from_ms)}")
            webhook = webhook._replace(position="", starts_at_ms=starts_ms)
            return self._plain_record(db, webhook)

    def rotate(self, actor: Caller, webhook_id: str, previous_valid_s: int) -> NewUnitWebhookRecord:
        """Create another secret. Messages are signed with both while the earlier one is valid.

        Raises `Conflict` if too many secrets would be valid.
        """
        now_ms = self._clock()
        with self._database.write() as db:
            webhook = _existing(store.find(db, actor.workspace_id, webhook_id, lock=True))
            store.end_secrets(db, webhook_id, now_ms + previous_valid_s * 1000, now_ms)
            if len(store.secrets(db, webhook_id)) >= MAX_SECRETS:
                raise Conflict(
                    f"At most {MAX_SECRETS} secrets may be valid at once. "
                    "End earlier ones with previousValidSeconds 0.",
                    code="too_many_secrets",
                )
            secret = self._add_secret(db, webhook_id, now_ms)
            self._audit(db, actor, Action.WEBHOOK_CHANGED, webhook, "secret")
            return self._record(db, webhook, secret)

    def deliveries(self, reader: Caller, webhook_id: str, page: Page) -> Listing[Delivery]:
        with self._database.read() as db:
            _existing(store.find(db, reader.workspace_id, webhook_id))
            listed = store.deliveries(db, webhook_id, page)
        return listed if _sees_secrets(reader) else listed.map(lambda each: each._replace(text=""))

    def last_deliveries(self, workspace_id: WorkspaceId) -> Mapping[str, Delivery]:
        """Return the last delivery of each webhook, by the webhook's ID, without its text."""
        with self._database.read() as db:
            return store.last_deliveries(db, workspace_id)

    async def test(self, actor: Caller, webhook_id: str) -> Delivery:
        """Send a message of type `test` now. Does not block the event loop.

        Raises `QueueFull` if too many tests of the workspace or of all run.
        """
        return await self._tests.run(actor.workspace_id, self._send_test, actor, webhook_id)

    def _send_test(self, actor: Caller, webhook_id: str) -> Delivery:
        with self._database.read() as db:
            webhook = _existing(store.find(db, actor.workspace_id, webhook_id))
        now_ms = self._clock()
        message_id = new_id("msg", now_ms)
        message = {
            "id": message_id,
            "type": "test",
            "timestamp": iso(now_ms),
            "corrects": None,
            "withdrawn": False,
            "data": {"funnelId": webhook.funnel_id},
        }
        delivery = self._deliverer.post(webhook, message_id, json.encode([message]), 1)
        with self._database.write() as db:
            if store.find(db, actor.workspace_id, webhook_id) is not None:
                store.add_delivery(db, webhook_id, delivery)
        return delivery

    def _check(self, webhook: Webhook) -> None:
        """Check the rules for a webhook. See `create` for the errors."""
        self._outbound.check(webhook.url, "url")
        is_warned, seconds = (
            WebhookEvent.EXPIRING in webhook.events,
            webhook.expiring_before_seconds,
        )
        if is_warned != (seconds is not None):
            message = "Must be sent with the type expiring, and only with it."
            raise Invalid([Fault("expiringBeforeSeconds", "required", message)])
        funnel = self._changes.open(webhook.workspace_id, webhook.funnel_id, webhook.website_id)
        if isinstance(funnel, StoredFunnel):
            return
        if (reason := lasting_reason(funnel)) is not None:
            raise Invalid([Fault("funnelId", "not_stored", reason)])

    def _update(
        self, actor: Caller, webhook_id: str, changes: Sequence[str], **values: Any
    ) -> UnitWebhookRecord:
        """Set columns and record the change."""
        values["updated_at"] = self._clock()
        with self._database.write() as db:
            webhook = _existing(store.find(db, actor.workspace_id, webhook_id, lock=True))
            store.change(db, webhook, **values)
            self._audit(db, actor, Action.WEBHOOK_CHANGED, webhook, ", ".join(changes))
            return self._plain_record(db, _existing(store.find(db, actor.workspace_id, webhook_id)))

    def _audit(
        self, db: Connection, actor: Caller, action: Action, webhook: Webhook, about: str = ""
    ) -> None:
        target = f"{webhook.id} {webhook.name}" + (f": {about}" if about else "")
        audit.record(db, actor, action, target, self._clock())

    def _add_secret(self, db: Connection, webhook_id: str, now_ms: int) -> str:
        secret = new_signing_secret()
        sealed = SigningSecret(new_id("sec", now_ms), self._box.seal(secret), now_ms)
        store.add_secret(db, webhook_id, sealed)
        return secret

    def _plain_record(self, db: Connection, webhook: Webhook) -> UnitWebhookRecord:
        return UnitWebhookRecord.from_webhook(webhook, *self._state(db, webhook))

    def _record(self, db: Connection, webhook: Webhook, secret: str) -> NewUnitWebhookRecord:
        return NewUnitWebhookRecord.from_webhook(webhook, *self._state(db, webhook), secret=secret)

    def _state(self, db: Connection, webhook: Webhook) -> tuple[int, list[SigningSecret]]:
        now_ms = self._clock()
        secrets = [each for each in store.secrets(db, webhook.id) if each.is_valid(now_ms)]
        return store.waiting(db, webhook.id), secrets


def _sees_secrets(reader: Caller) -> bool:
    """Whether a reader sees URLs and responses of receivers, which may contain secrets."""
    return KeyScope.MANAGE in reader.scopes


def _shown_to(reader: Caller, webhook: Webhook) -> Webhook:
    if _sees_secrets(reader):
        return webhook
    return webhook._replace(url=site_of(webhook.url))


def _existing(webhook: Webhook | None) -> Webhook:
    if webhook is None:
        raise NotFound("There is no such webhook in this workspace.")
    return webhook


def waiting_messages(db: Connection, person: Person) -> Iterator[StoredRecord]:
    """Return the messages about a person that wait."""
    for message in store.messages_about(db, person.scope_id, person.visitor_ids):
        yield "webhookMessage", message


def forget_messages(
    db: Connection, scope_id: ScopeId, visitor_ids: Sequence[VisitorId]
) -> dict[str, int]:
    """Delete the waiting messages about visitors, in the transaction that deletes these. Returns
    their number.
    """
    return {"webhookMessages": store.forget_messages(db, scope_id, visitor_ids)}
