"""Makes messages of the changes of stored outcomes, and of outcomes whose time has come.

A position and the messages up to it are saved in one transaction. So a process that dies makes the
same messages again, with the same IDs, and none is lost.
"""

from time import monotonic

from msgspec import json

from penstock.accounts.workspace.model import Contents
from penstock.accounts.workspace.service import WorkspaceService
from penstock.base.errors import PenstockError, StoreUnavailable
from penstock.base.worker import Worker, WorkerStopped
from penstock.core import Core
from penstock.funnels.changes import OutcomeChanges, StoredFunnel
from penstock.funnels.outcomes.model import LAST_UNIT, DuePosition
from penstock.funnels.queries.schema import DirectReason
from penstock.warehouse.errors import QueryFailed, explain_failure
from penstock.warehouse.work import Stopped, Work, working_on
from penstock.webhooks import store
from penstock.webhooks.deliveries import Deliverer
from penstock.webhooks.messages import Rules, messages_of
from penstock.webhooks.model import (
    MAX_UNITS,
    MAX_WAITING,
    REMEMBERED_MS,
    KnownUnit,
    NewMessage,
    OutcomeTimes,
    Position,
    Webhook,
)
from penstock.webhooks.reasons import FULL, NOT_ALLOWED, REASONS, SET_ASIDE

_WORK = 7305808869229538681
"""Advisory lock number. Only one node makes messages at a time."""
_PERIOD_S = 1.0
_CLEAN_EVERY_MS = 600_000
_MAX_UNITS = 2_000
"""Maximum number of units of one kind of change that are read at once."""
_STATEMENT_S = 60.0
_STOP_S = 10.0


class MessageMaker:
    """Reads the changes of all webhooks, one after the other, in one thread."""

    def __init__(
        self,
        core: Core,
        changes: OutcomeChanges,
        workspaces: WorkspaceService,
        deliverer: Deliverer,
    ) -> None:
        self._database, self._warehouse = core.database, core.warehouse
        self._clock, self._attempts = core.clock, core.attempts
        self._changes, self._workspaces, self._deliverer = changes, workspaces, deliverer
        self.worker = Worker(
            "webhook_messages",
            self._step,
            core.clock,
            period_s=_PERIOD_S,
            interrupt=self._stop_statement,
        )
        self._work = Work()
        self._cleaned_at_ms: int | None = None

    def _stop_statement(self) -> None:
        self._warehouse.stop(self._work, monotonic() + _STOP_S)

    def _step(self) -> float | None:
        with self._database.exclusive_lock(_WORK) as is_mine:
            if not is_mine:
                return None
            with self._database.read() as db:
                webhooks = store.active(db)
            is_behind, errors = False, list[Exception]()
            for webhook in webhooks:
                self.worker.pause(0)
                try:
                    is_behind |= self._try_make(webhook)
                except WorkerStopped:
                    raise
                except Exception as error:  # The other webhooks continue.
                    errors.append(error)
            self._clean(webhooks)
        if errors:
            raise errors[0]
        return 0.0 if is_behind else None

    def _try_make(self, webhook: Webhook) -> bool:
        """Make messages, and note why if that is not possible. Returns whether there are more."""
        self._work = Work(
            {"max_threads": 1, "max_execution_time": _STATEMENT_S}, webhook.workspace_id
        )
        problem, is_behind = None, False
        try:
            with working_on(self._work):
                problem, is_behind = self._make(webhook)
        except Stopped:
            raise WorkerStopped from None
        except StoreUnavailable:
            raise
        except PenstockError as error:
            problem = error.detail
        except QueryFailed as error:
            problem = str(explain_failure(error))
        if problem != webhook.problem:
            with self._database.write() as db:
                store.change(db, webhook, problem=problem)
        return is_behind

    def _make(self, webhook: Webhook) -> tuple[str | None, bool]:
        """Return why no messages can be made, and whether there are more to make now."""
        if self._attempts.held_ms(webhook.id):
            return SET_ASIDE, False
        shared = self._workspaces.shared_contents(webhook.workspace_id)
        if shared.level is not Contents.UNITS:
            return NOT_ALLOWED, False
        with self._database.read() as db:
            if store.waiting(db, webhook.id) >= MAX_WAITING:
                return FULL, False
        funnel = self._changes.open(webhook.workspace_id, webhook.funnel_id, webhook.website_id)
        if isinstance(funnel, DirectReason):
            return REASONS[funnel], False
        webhook, position = self._begin(webhook, funnel)
        from_ms = max(webhook.starts_at_ms, funnel.now_ms - REMEMBERED_MS)
        rules = Rules(
            webhook, funnel.context.rules, funnel.steps, funnel.now_ms, from_ms, shared.properties
        )
        with self._attempts.attempt(webhook.id):
            is_behind = self._make_from(rules, funnel, position)
        self._attempts.forget(webhook.id)
        return None, is_behind

    def _make_from(self, rules: Rules, funnel: StoredFunnel, position: Position) -> bool:
        """Make the messages that follow a position. Returns whether there are more to make now."""
        webhook = rules.webhook
        read = self._read(rules, funnel, position)
        outcomes = None if read is None else self._changes.read(funnel, read[0])
        if read is None or outcomes is None:
            return False  # The rows have just been replaced.
        units, moved = read
        known = dict[int, OutcomeTimes]()
        if not _has_other_rules(webhook, moved):
            with self._database.read() as db:
                known = store.known_units(db, webhook.id, list(outcomes))
        said, messages = list[KnownUnit](), list[NewMessage]()
        for unit, outcome in outcomes.items():
            after, new = messages_of(rules, unit, outcome, known.get(unit, {}))
            said += [after] if after is not None else []
            messages += new
        messages.sort(key=lambda message: message.at_ms)
        if units or position.is_outdated(moved):
            self._save(webhook, moved, said, messages)
        return moved.is_behind

    def _begin(self, webhook: Webhook, funnel: StoredFunnel) -> tuple[Webhook, Position]:
        """Return where to read from. Under other rules than before, only outcomes count that come
        after what was read last.
        """
        position = _position_of(webhook)
        if position.rules == funnel.context.rules:
            return webhook, position
        starts_ms = max(webhook.starts_at_ms, position.evaluated_at_ms)
        due = DuePosition(max(0, starts_ms - funnel.window_ms - 1), LAST_UNIT)
        return (
            webhook._replace(starts_at_ms=starts_ms),
            Position(funnel.context.rules, dropped=due, expiring=due),
        )

    def _read(
        self, rules: Rules, funnel: StoredFunnel, position: Position
    ) -> tuple[set[int], Position] | None:
        """Return the units that may need a message, and the position after them."""
        now_ms, window_ms = funnel.now_ms, funnel.window_ms
        entered_ms = rules.from_ms - window_ms
        changed = self._changes.changed(funnel, position.rows, entered_ms, _MAX_UNITS)
        if changed is None:
            return None
        units, rows = changed
        ended_ms = now_ms - window_ms - 1
        own, dropped = self._changes.due(funnel, position.dropped, ended_ms, _MAX_UNITS)
        units |= own
        expiring = position.expiring
        if rules.expiring_ms is not None:
            warned_ms = now_ms - window_ms + rules.expiring_ms
            own, expiring = self._changes.due(funnel, expiring, warned_ms, _MAX_UNITS)
            units |= own
        return units, Position(rules.definition, now_ms, rows, dropped, expiring)

    def _save(
        self,
        webhook: Webhook,
        position: Position,
        said: list[KnownUnit],
        messages: list[NewMessage],
    ) -> None:
        text = json.encode(position).decode()
        with self._database.write() as db:
            if not store.advance(db, webhook, text, starts_at=webhook.starts_at_ms):
                return
            if _has_other_rules(webhook, position):
                store.forget_units(db, webhook.id)
            store.save_units(db, webhook.id, said)
            store.add_messages(db, webhook.id, messages, self._clock())
        if messages:
            self._deliverer.worker.wake()

    def _clean(self, webhooks: list[Webhook]) -> None:
        """Every ten minutes, forget old units and deliveries."""
        now_ms = self._clock.elapsed_ms()
        if self._cleaned_at_ms is not None and now_ms < self._cleaned_at_ms + _CLEAN_EVERY_MS:
            return
        self._cleaned_at_ms = now_ms
        for webhook in webhooks:
            with self._database.write() as db:
                before_ms = self._clock() - REMEMBERED_MS
                store.forget_old_units(db, webhook.id, before_ms, MAX_UNITS)
                store.forget_old_deliveries(db, webhook.id)


def _position_of(webhook: Webhook) -> Position:
    return json.decode(webhook.position, type=Position) if webhook.position else Position()


def _has_other_rules(webhook: Webhook, position: Position) -> bool:
    """Whether the webhook has said something under other rules than those of a position."""
    return _position_of(webhook).rules not in ("", position.rules)
