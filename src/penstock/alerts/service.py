"""Creates, reads, changes, snoozes and deletes alerts, and lists their history."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.mail.service import Mailer
from penstock.accounts.model import Caller
from penstock.alerts import store
from penstock.alerts.checks import DAY_MS, Checker, closed_periods
from penstock.alerts.model import (
    Address,
    Channel,
    ChannelKind,
    ConditionKind,
    StoredMessage,
    Verdict,
)
from penstock.alerts.schema import (
    AlertChange,
    AlertDeliveryRecord,
    AlertIn,
    AlertMessageRecord,
    AlertRecord,
    ChannelIn,
    ChannelRecord,
    CheckRecord,
    ConditionIn,
    SnoozeIn,
)
from penstock.alerts.worker import AlertWorker
from penstock.base.errors import Fault, Invalid, NotFound
from penstock.base.ids import WorkspaceId, new_id, new_ids
from penstock.base.paging import Listing, Page
from penstock.core import Core
from penstock.metadb.named import add_named, check_number, delete_named, named_page, unique_name
from penstock.metadb.secret_box import SecretBox
from penstock.metadb.tables import alerts
from penstock.named_records.service import NamedRecords
from penstock.outbound.sender import Outbound, new_signing_secret
from penstock.outbound.targets import site_of

_MAX_SNOOZE_DAYS = 90


class AlertService(NamedRecords[AlertRecord]):
    """Manages alerts. Methods block: call them from a worker thread.

    They raise NotFound if the workspace has no such alert.
    """

    table, model, noun, prefix = alerts, AlertRecord, "alert", "alr"
    maximum = 50

    def __init__(
        self,
        core: Core,
        checker: Checker,
        worker: AlertWorker,
        mailer: Mailer,
        outbound: Outbound,
        box: SecretBox,
    ) -> None:
        super().__init__(core.database, core.clock)
        self._checker, self._worker = checker, worker
        self._mailer, self._outbound, self._box = mailer, outbound, box

    def create(self, actor: Caller, new: AlertIn) -> AlertRecord:
        """Add an alert.

        Raises Conflict if the name is taken or the workspace has the maximum number of alerts, and
        Invalid if the condition cannot be checked or a channel cannot receive messages.
        """
        self._checker.validate(actor.workspace_id, new.condition, self._clock())
        now_ms = self._clock()
        alert_id = new_id(self.prefix, now_ms)
        row = {
            "id": alert_id,
            "name": new.name,
            "quiet_hours": new.quiet_hours and new.quiet_hours.model_dump(by_alias=True),
            "is_paused": new.paused,
            **_columns(new.condition, now_ms),
            "created_at": now_ms,
            "updated_at": now_ms,
        }
        with unique_name(self.noun, new.name), self._database.write() as db:
            check_number(
                db,
                self.table,
                actor.workspace_id,
                self.maximum,
                "alerts",
                code=self.too_many_code(),
            )
            added, shown = self._new_channels(db, actor.workspace_id, new.channels, [])
            add_named(db, self.table, actor.workspace_id, row)
            store.add_channels(db, actor.workspace_id, alert_id, added)
            self._audit(db, actor, Action.ALERT_CREATED, alert_id, new.name, added)
            record = self._record(db, self._row(db, actor.workspace_id, alert_id), shown)
        self._worker.wake()
        return record

    def get(self, workspace_id: WorkspaceId, record_id: str) -> AlertRecord:
        with self._database.read() as db:
            return self._record(db, self._row(db, workspace_id, record_id))

    def page(self, workspace_id: WorkspaceId, page: Page, search: str = "") -> Listing[AlertRecord]:
        with self._database.read() as db:
            rows, total = named_page(db, self.table, workspace_id, page, search)
            channels = store.channels(db, [row.id for row in rows])
        return Listing([_record(row._mapping, channels[row.id]) for row in rows], page, total)

    def change(self, actor: Caller, alert_id: str, change: AlertChange) -> AlertRecord:
        """Change the fields that are sent. Raises the same errors as `create`."""
        if change.condition is not None:
            self._checker.validate(actor.workspace_id, change.condition, self._clock())
        now_ms, sent = self._clock(), change.model_fields_set
        with unique_name(self.noun, change.name or ""), self._database.write() as db:
            saved = self._row(db, actor.workspace_id, alert_id, hold=True)
            changed: dict[str, Any] = {"name": change.name or saved["name"]}
            if change.condition is not None:
                changed |= _columns(change.condition, now_ms)
                store.forget_findings(db, alert_id)
            if "quiet_hours" in sent:
                hours = change.quiet_hours
                changed["quiet_hours"] = hours and hours.model_dump(by_alias=True)
            if change.paused is not None:
                changed |= {"is_paused": change.paused, "due_at": now_ms}
            added, shown = list[Channel](), dict[str, str]()
            if change.channels is not None:
                own = store.channels(db, [alert_id])[alert_id]
                added, shown = self._new_channels(db, actor.workspace_id, change.channels, own)
                own_ids = [channel.id for channel in change.channels if channel.id is not None]
                store.remove_channels(db, alert_id, keep=own_ids)
                store.add_channels(db, actor.workspace_id, alert_id, added)
            store.set_alert(db, alert_id, **changed, updated_at=now_ms)
            self._audit(db, actor, Action.ALERT_CHANGED, alert_id, changed["name"], added)
            record = self._record(db, self._row(db, actor.workspace_id, alert_id), shown)
        self._worker.wake()
        return record

    def delete(self, actor: Caller, alert_id: str) -> None:
        with self._database.write() as db:
            saved = self._row(db, actor.workspace_id, alert_id, hold=True)
            delete_named(db, self.table, alert_id)
            self._audit(db, actor, Action.ALERT_DELETED, alert_id, saved["name"])

    def snooze(self, actor: Caller, alert_id: str, snooze: SnoozeIn) -> AlertRecord:
        """Let messages wait until a time, or send those that wait now."""
        now_ms, until_ms = self._clock(), snooze.until
        if (
            until_ms is not None
            and not now_ms < int(until_ms) <= now_ms + _MAX_SNOOZE_DAYS * DAY_MS
        ):
            message = f"Must be in the future, at most {_MAX_SNOOZE_DAYS} days ahead."
            raise Invalid([Fault("until", "out_of_range", message)])
        with self._database.write() as db:
            saved = self._row(db, actor.workspace_id, alert_id, hold=True)
            store.set_alert(db, alert_id, snoozed_until=until_ms)
            store.release_deliveries(db, alert_id, now_ms)
            self._audit(db, actor, Action.ALERT_CHANGED, alert_id, f"{saved['name']}: snooze")
            record = self._record(db, self._row(db, actor.workspace_id, alert_id))
        self._worker.wake()
        return record

    def send_test(self, actor: Caller, alert_id: str) -> AlertMessageRecord:
        """Send a test message with the current figures. Raises Invalid if a check is not
        possible.
        """
        with self._database.read() as db:
            row = self._row(db, actor.workspace_id, alert_id)
        stored = self._worker.add_test(store.alert_of(row))
        with self._database.write() as db:
            self._audit(db, actor, Action.ALERT_TESTED, alert_id, row["name"])
            [record] = _message_records(db, alert_id, [stored])
        self._worker.wake()
        return record

    def checks(self, workspace_id: WorkspaceId, alert_id: str, page: Page) -> Listing[CheckRecord]:
        """List the judged periods, newest first."""
        with self._database.read() as db:
            self._row(db, workspace_id, alert_id)
            return store.findings_page(db, alert_id, page).map(CheckRecord.from_object)

    def messages(
        self, workspace_id: WorkspaceId, alert_id: str, page: Page
    ) -> Listing[AlertMessageRecord]:
        """List messages with their deliveries, newest first."""
        with self._database.read() as db:
            self._row(db, workspace_id, alert_id)
            listed = store.messages_page(db, alert_id, page)
            return Listing(_message_records(db, alert_id, listed.data), page, listed.total)

    def report_path(self, workspace_id: WorkspaceId, message_id: str) -> str:
        """Return the path of the page that shows the figures of a message."""
        with self._database.read() as db:
            stored = store.message(db, workspace_id, message_id)
        if stored is None:
            raise NotFound("There is no such message in this workspace.")
        return stored.report

    def _new_channels(
        self,
        db: Connection,
        workspace_id: WorkspaceId,
        sent: Sequence[ChannelIn],
        own: Sequence[Channel],
    ) -> tuple[list[Channel], dict[str, str]]:
        """Return the new channels among those sent, and the secrets to show, by channel ID.

        own: the channels that the alert has. Raises Invalid with all faults.
        """
        users = [channel.user_id for channel in sent if channel.user_id is not None]
        addresses = store.addresses(db, workspace_id, users)
        known, now_ms = {channel.id for channel in own}, self._clock()
        added, shown, faults = list[Channel](), dict[str, str](), list[Fault]()
        for at, (channel_id, channel) in enumerate(
            zip(new_ids("chn", now_ms, len(sent)), sent, strict=True)
        ):
            field = f"channels[{at}]"
            match channel.kind:
                case None if channel.id not in known:
                    message = "The alert has no channel with this ID."
                    faults.append(Fault(f"{field}.id", "not_one_of", message))
                case None:
                    continue
                case ChannelKind.EMAIL:
                    user_id = channel.user_id or ""
                    if (problem := self._mail_problem(addresses.get(user_id))) is not None:
                        faults.append(Fault(f"{field}.userId", "cannot_receive", problem))
                    added.append(Channel(channel_id, channel.kind, user_id))
                case ChannelKind.WEBHOOK | ChannelKind.CHAT:
                    url = channel.url or ""
                    try:
                        self._outbound.check(url, f"{field}.url")
                    except Invalid as error:
                        faults += error.faults
                        continue
                    secret, target = url, site_of(url)
                    if channel.kind is ChannelKind.WEBHOOK:
                        secret = new_signing_secret()
                        target, shown[channel_id] = url, secret
                    added.append(Channel(channel_id, channel.kind, target, self._box.seal(secret)))
        if faults:
            raise Invalid(faults)
        return added, shown

    def _mail_problem(self, address: Address | None) -> str | None:
        """Return why a member cannot receive emails; None if they can."""
        if not self._mailer.is_set_up:
            return "The service has no mail server (PENSTOCK_SMTP_URL). Choose a webhook instead."
        if address is None:
            return "The workspace has no member with this ID."
        if not address.is_confirmed:
            return "This member has not confirmed their email address yet."
        return None

    def _record(
        self, db: Connection, row: Mapping[Any, Any], shown: Mapping[str, str] | None = None
    ) -> AlertRecord:
        return _record(row, store.channels(db, [row["id"]])[row["id"]], shown or {})

    def _audit(
        self,
        db: Connection,
        actor: Caller,
        action: Action,
        alert_id: str,
        name: str,
        added: Sequence[Channel] = (),
    ) -> None:
        channels = "".join(f", {channel.kind} {_shown_target(channel)}" for channel in added)
        audit.record(db, actor, action, f"{alert_id} {name}{channels}", self._clock())


def _columns(condition: ConditionIn, now_ms: int) -> dict[str, Any]:
    """Return the columns of a new condition. The last closed period is the first to be judged."""
    first_ms = now_ms
    if condition.kind is ConditionKind.RATE:
        first_ms = closed_periods(condition, now_ms - 8 * DAY_MS, now_ms)[-1][0]
    return {
        "condition": condition.model_dump(mode="json", by_alias=True, exclude_unset=True),
        "checked_from": first_ms,
        "due_at": now_ms,
        "verdict": Verdict.UNDECIDED,
        "basis": None,
        "problem": None,
    }


def _shown_target(channel: Channel) -> str:
    """Return the target of a channel without the path of a URL, which may be a secret."""
    return channel.target if channel.kind is ChannelKind.EMAIL else site_of(channel.target)


def _record(
    row: Mapping[Any, Any], channels: Sequence[Channel], shown: Mapping[str, str] = {}
) -> AlertRecord:
    """Return the record of a row. shown: secrets to show, by channel ID."""
    listed = [
        ChannelRecord(
            id=channel.id,
            kind=channel.kind,
            user_id=channel.target if channel.kind is ChannelKind.EMAIL else None,
            url=None if channel.kind is ChannelKind.EMAIL else _shown_target(channel),
            secret=shown.get(channel.id),
        )
        for channel in channels
    ]
    own = {name: row[name] for name in AlertRecord.model_fields if name in row}
    return AlertRecord(**{**own, "channels": listed, "paused": row["is_paused"]})


def _message_records(
    db: Connection, alert_id: str, listed: Sequence[StoredMessage]
) -> list[AlertMessageRecord]:
    channels = {channel.id: channel for channel in store.channels(db, [alert_id])[alert_id]}
    deliveries = store.deliveries(db, [stored.id for stored in listed])
    return [
        AlertMessageRecord.from_object(
            stored.message,
            id=stored.id,
            alert_id=alert_id,
            kind=stored.kind,
            created_at=stored.created_at_ms,
            deliveries=[
                AlertDeliveryRecord.from_object(
                    delivery,
                    kind=channels[delivery.channel_id].kind,
                    target=_shown_target(channels[delivery.channel_id]),
                )
                for delivery in deliveries[stored.id]
            ],
        )
        for stored in listed
    ]
