"""The worker that checks alerts and writes down their findings and messages.

Each due alert is checked by one node at a time: the node moves the next check ahead when it begins,
and saves nothing if the alert was changed meanwhile. If the process dies, the alert is due again
after the lease.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import structlog
from sqlalchemy import Connection

from penstock.accounts.workspace.service import WorkspaceService
from penstock.alerts import store
from penstock.alerts.changes import Change, changes_of
from penstock.alerts.checks import DAY_MS, Check, Checker, Period
from penstock.alerts.deliveries import Deliverer
from penstock.alerts.model import (
    Alert,
    Comparison,
    ConditionKind,
    Delivery,
    DeliveryState,
    Finding,
    MessageKind,
    StoredMessage,
    Verdict,
)
from penstock.alerts.wording import MessageWriter
from penstock.base.clock import iso
from penstock.base.errors import Conflict, Invalid, Malformed, NotFound, PenstockError, Unauthorized
from penstock.base.ids import new_id, new_ids
from penstock.base.worker import Worker, WorkerStopped
from penstock.core import Core
from penstock.warehouse.work import Stopped, Work, working_on

log = structlog.get_logger()

_MINUTE_MS = 60_000
_PERIOD_MS = {
    ConditionKind.RATE: 60 * _MINUTE_MS,
    ConditionKind.SILENCE: 5 * _MINUTE_MS,
    ConditionKind.REJECTIONS: 60 * _MINUTE_MS,
    ConditionKind.LAG: _MINUTE_MS,
}
"""Time between checks, by the kind of the condition."""
_FORECASTS = [each for each in Comparison if each.is_forecast]
_RETRY_MS = 5 * _MINUTE_MS
_LEASE_MS = 20 * _MINUTE_MS
_IDLE_S = 60.0
_RETENTION_MS = 400 * DAY_MS
"""Age at which findings and messages are deleted."""
_OF_THE_ALERT = (Conflict, Invalid, Malformed, NotFound, Unauthorized)
"""Errors that the next check of an alert repeats, until somebody changes something."""


class _Written(NamedTuple):
    """A change with the message that it needs, if any."""

    change: Change
    stored: StoredMessage | None


class AlertWorker:
    """Checks the alerts that are due, one after the other, within the limits of their workspaces,
    which take turns.

    `check_due` and `add_test` block.
    """

    def __init__(
        self,
        core: Core,
        checker: Checker,
        writer: MessageWriter,
        deliverer: Deliverer,
        workspaces: WorkspaceService,
    ) -> None:
        self._database, self._clock, self._attempts = core.database, core.clock, core.attempts
        self._warehouse, self._workspaces = core.warehouse, workspaces
        self._checker, self._writer, self._deliverer = checker, writer, deliverer
        self._work: Work | None = None  # controls the running statements
        self._last_workspace_id = ""
        self.worker = Worker(
            "alerts",
            self.check_due,
            self._clock,
            first_after_s=5.0,
            interrupt=self._stop_check,
            stalled_after_s=None,
        )

    def _stop_check(self) -> None:
        """Stop the running statement. The check is repeated later."""
        if (work := self._work) is not None:
            self._warehouse.stop(work)

    def wake(self) -> None:
        """Check and deliver what is due now. Never blocks."""
        self.worker.wake()
        self._deliverer.worker.wake()

    def check_due(self) -> float:
        """Check all alerts that are due. Returns the seconds until the next one is."""
        while not self.worker.is_stopping:
            lease_until_ms = self._clock() + _LEASE_MS
            with self._database.write() as db:
                alert = store.claim_due(db, self._clock(), lease_until_ms, self._last_workspace_id)
                due_ms = None if alert else store.next_due_ms(db)
            if alert is None and (due_ms is None or due_ms > self._clock()):
                wait_s = _IDLE_S if due_ms is None else (due_ms - self._clock()) / 1000
                return min(_IDLE_S, max(1.0, wait_s))
            if alert is not None:
                self._last_workspace_id = alert.workspace_id
                self._check_one(alert, lease_until_ms)
        return _IDLE_S

    def _check_one(self, alert: Alert, lease_until_ms: int) -> None:
        """Check an alert. Its errors do not delay other alerts."""
        self.worker.report_progress()
        if held_ms := self._attempts.held_ms(alert.id):
            self._postpone(
                alert,
                lease_until_ms,
                held_ms,
                "The check ended the process, and is repeated later.",
            )
            return
        try:
            with self._attempts.attempt(alert.id):
                self.check(alert, self._clock(), lease_until_ms)
            self._attempts.forget(alert.id)
        except Stopped:
            self._postpone(alert, lease_until_ms, 0, alert.problem)
            raise WorkerStopped from None
        except _OF_THE_ALERT as error:
            period_ms = _PERIOD_MS[ConditionKind(alert.condition["kind"])]
            self._postpone(alert, lease_until_ms, period_ms, error.detail)
        except PenstockError as error:
            self._postpone(alert, lease_until_ms, _RETRY_MS, error.detail)
        except Exception as error:
            log.warning("alert_not_checked", alert_id=alert.id, error=type(error).__name__)
            self._postpone(alert, lease_until_ms, _RETRY_MS, "The check failed, and is repeated.")

    def _postpone(
        self, alert: Alert, lease_until_ms: int, wait_ms: int, problem: str | None
    ) -> None:
        with self._database.write() as db:
            if store.hold_claimed(db, alert, lease_until_ms):
                store.set_alert(db, alert.id, due_at=self._clock() + wait_ms, problem=problem)

    def check(self, alert: Alert, now_ms: int, lease_until_ms: int, *, as_of: bool = False) -> None:
        """Check a claimed alert, and save its new findings and messages.

        as_of: see `Checker.check`.
        """
        with self._database.read() as db:
            findings = store.findings(db, alert.id, 0)
        last = findings[-1] if findings else None
        with self._limit(alert):
            check = self._checker.check(alert, last, now_ms, as_of=as_of)
            is_rate = alert.condition["kind"] == ConditionKind.RATE
            is_other = is_rate and alert.basis not in (None, check.basis)
            if is_other:  # The funnel is another one now: begin again, as with a new alert.
                findings, check = [], check._replace(periods=check.periods[-1:])
            periods = check.periods if is_rate else _changed(last, check.periods)
            if alert.condition.get("when") in _FORECASTS:
                periods = [each for each in periods if not _may_hold(each)]
            alarmed = {each.message_id: each.found_at_ms for each in findings}
            written = [
                self._write(alert, change, now_ms, alarmed)
                for change in changes_of(findings, periods)
            ]
        self._save(alert, check, written, findings, now_ms, lease_until_ms, forget=is_other)

    @contextmanager
    def _limit(self, alert: Alert) -> Iterator[None]:
        """Limit statements to those of the workspace, and to one thread, to leave the others to
        people.
        """
        limits = self._workspaces.engine_limits(alert.workspace_id)
        self._work = Work({"max_threads": 1, **limits}, owner=alert.workspace_id)
        try:
            with working_on(self._work):
                yield
        finally:
            self._work = None

    def _write(
        self, alert: Alert, change: Change, now_ms: int, alarmed: dict[str | None, int]
    ) -> _Written:
        """Write the message that a change needs. alarmed: times of earlier messages by ID."""
        if (kind := change.message) is None:
            return _Written(change, None)
        if change.corrects is not None:
            figures = {**change.period.figures, "alarmedAt": iso(alarmed[change.corrects])}
            change = change._replace(period=change.period._replace(figures=figures))
        message_id = new_id("msg", now_ms)
        message = self._writer.write(alert, change, message_id)
        report = self._writer.report_path(alert, change.period.figures)
        stored = StoredMessage(message_id, alert.id, kind, message, report, now_ms)
        return _Written(change, stored)

    def _save(
        self,
        alert: Alert,
        check: Check,
        written: Sequence[_Written],
        findings: Sequence[Finding],
        now_ms: int,
        lease_until_ms: int,
        *,
        forget: bool,
    ) -> None:
        kind = ConditionKind(alert.condition["kind"])
        changed: dict[str, object] = {"checked_at": now_ms, "problem": None, "basis": check.basis}
        if forget:
            changed["checked_from"] = check.periods[0].start_ms if check.periods else now_ms
        verdicts = {} if forget else {each.start_at_ms: each.verdict for each in findings}
        verdicts |= {each.change.period.start_ms: each.change.period.verdict for each in written}
        decided = [verdicts[at] for at in sorted(verdicts) if verdicts[at] is not Verdict.UNDECIDED]
        if kind is ConditionKind.RATE:
            changed["verdict"] = decided[-1] if decided else Verdict.UNDECIDED
        elif check.periods:
            changed["verdict"] = check.periods[-1].verdict
        with self._database.write() as db:
            if not store.hold_claimed(db, alert, lease_until_ms):
                return
            if forget:
                store.forget_findings(db, alert.id)
            for change, stored in written:
                store.save_finding(db, alert.id, _finding(change.period, stored, now_ms))
                if stored is not None:
                    self._add(db, alert, stored, findings)
            store.forget_findings(db, alert.id, now_ms - _RETENTION_MS)
            store.forget_messages(db, alert.id, now_ms - _RETENTION_MS)
            due_at_ms = self._clock() + _PERIOD_MS[kind]
            store.set_alert(db, alert.id, due_at=due_at_ms, **changed)
        if any(stored for _, stored in written):
            self._deliverer.worker.wake()

    def _add(
        self, db: Connection, alert: Alert, stored: StoredMessage, findings: Sequence[Finding]
    ) -> None:
        """Save a message with its deliveries.

        A correction, and during a snooze a recovery, cancels the deliveries of the alarm that wait,
        and goes only to the channels that may have received the alarm.
        """
        channel_ids = {channel.id for channel in store.channels(db, [alert.id])[alert.id]}
        alarm_id = stored.message.corrects
        if stored.kind is MessageKind.RECOVERY and (alert.snoozed_until_ms or 0) > self._clock():
            alarms = [each.message_id for each in findings if each.verdict is Verdict.ALARMING]
            alarm_id = next(filter(None, reversed(alarms)), None)
        if alarm_id is not None:
            channel_ids &= store.cancel_deliveries(db, alarm_id)
        now_ms = stored.created_at_ms
        deliveries = [
            Delivery(delivery_id, stored.id, channel_id, DeliveryState.WAITING, self._clock())
            for delivery_id, channel_id in zip(
                new_ids("dlv", now_ms, len(channel_ids)), sorted(channel_ids), strict=True
            )
        ]
        store.add_message(db, alert.workspace_id, stored, deliveries)

    def add_test(self, alert: Alert) -> StoredMessage:
        """Save a test message with the current figures, for all channels of an alert.

        Raises the same errors as `Checker.check`.
        """
        now_ms = self._clock()
        check = self._checker.check(alert, None, now_ms)
        nothing = Period(now_ms, now_ms, Verdict.UNDECIDED, {})
        change = Change(check.periods[-1] if check.periods else nothing, MessageKind.TEST)
        stored = self._write(alert, change, now_ms, {}).stored
        assert stored is not None
        with self._database.write() as db:
            self._add(db, alert, stored, [])
        return stored


def _may_hold(period: Period) -> bool:
    """Whether a forecast neither confirms nor contradicts an earlier verdict, which then stands:
    forecasts that move to and fro around a level cause no messages.
    """
    return period.verdict is Verdict.UNDECIDED and "rate" in period.figures


def _finding(period: Period, stored: StoredMessage | None, now_ms: int) -> Finding:
    message_id = None if stored is None else stored.id
    return Finding(*period, found_at_ms=now_ms, message_id=message_id)


def _changed(last: Finding | None, periods: Sequence[Period]) -> list[Period]:
    """Return the periods whose verdict is another than the last one, for alerts that are not about
    rates: they have no history of uneventful checks.
    """
    before = Verdict.FINE if last is None else last.verdict
    return [period for period in periods if period.verdict is not before]
