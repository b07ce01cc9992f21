"""Which questions stored outcomes answer, and the worker that builds and drops them.

A question asks `current`: rows that know every event of its data, after folding the units that
changed since. Where that is not possible, or would take long, it evaluates the events directly.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple

import structlog
from anyio import CancelScope, CapacityLimiter, to_thread

from penstock.accounts.websites.service import WebsiteService
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, Malformed, NotFound, StoreUnavailable
from penstock.base.ids import WebsiteId, WorkspaceId, new_id
from penstock.base.metrics import counter
from penstock.base.worker import Worker, WorkerStopped
from penstock.funnels.outcomes.model import Mark, NotStorable, Subject, Unsettled
from penstock.funnels.outcomes.tables import Backlog, OutcomeTables
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.engine import ENGINE_SETTINGS
from penstock.funnels.saved.service import FunnelService
from penstock.funnels.statements.query import Statement, StoredBuild
from penstock.funnels.statements.storing import is_storable
from penstock.settings import Settings
from penstock.warehouse.client import QueryFailed, Warehouse
from penstock.warehouse.work import Stopped, Work, working_on

log = structlog.get_logger()

_BUILDS = counter("penstock_outcome_builds", "Builds of stored outcomes.", ["outcome"])
_DIFFERENCES = counter("penstock_outcome_differences", "Stored outcomes that differed from events.")
_PERIOD_S = 30.0
_TURN_S = 1.0
"""How long a question waits for another that folds the same units; then it evaluates directly."""
_FEW_EVENTS, _FEW_UNITS = 50_000, 10_000
"""What a question folds itself; the worker does more."""
_MANY_UNITS = 200_000
"""From so many on, a new build costs less than folding them again."""
_LEAVE_MS = 120_000
"""Statements that still read a build end within this time."""
_UNASKED_MS = 30 * 86_400_000
_ASKED_OFTEN_MS = 3_600_000
_BUILD_S = 4 * 3600
_COMPARED_EVERY_MS = 600_000
_COMPARED_SHARE = 100
"""Of every so many units one is compared, all of its events being read."""


class OutcomesDiffer(Exception):
    """Stored outcomes were not what the events say. They are dropped and built again."""


class _Request(NamedTuple):
    """Outcomes to build."""

    subject: Subject
    workspace_id: WorkspaceId
    funnel_id: str


class OutcomeService:
    """Methods block: call them from a worker thread."""

    def __init__(
        self,
        warehouse: Warehouse,
        websites: WebsiteService,
        funnels: FunnelService,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._warehouse, self._websites, self._funnels = warehouse, websites, funnels
        self._settings, self._clock = settings, clock
        self._tables = OutcomeTables(warehouse, self._run)
        # One process writes: numbers of inserts order what it knows, and marks are its own. So
        # there are no stored outcomes on a server that several nodes share.
        self.is_enabled = settings.stored_outcomes > 0 and warehouse.folder is not None
        self._state = Lock()  # guards the fields below
        self._marks: dict[str, Mark] = {}
        self._turns: dict[str, Lock] = {}
        self._requests: dict[str, _Request] = {}
        self._leaving: dict[str, int] = {}  # builds without a mark, and since when
        self._not_storable: set[str] = set()  # until the next start
        self._is_loaded = False
        self._work: Work | None = None
        self._comparisons, self._compared_at_ms = 0, clock()
        self.worker = Worker(
            "outcomes", self._step, clock, period_s=_PERIOD_S, stalled_after_s=None
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the service runs. A build ends with it and begins again after the next start."""
        if not self.is_enabled:
            yield
            return
        async with self.worker.running():
            try:
                yield
            finally:
                if self._work is not None:
                    with CancelScope(shield=True):
                        # A limiter of its own: requests that hang may occupy every shared thread.
                        await to_thread.run_sync(
                            self._warehouse.stop, self._work, limiter=CapacityLimiter(1)
                        )

    # What a question asks.

    def current(self, context: QueryContext) -> StoredBuild | None:
        """Rows that know every event of the question's data; None: evaluate it directly."""
        subject = _subject_of(context)
        mark = self._mark(subject.outcome)
        if mark is None or not context.is_fresh:
            return None
        turn = self._turns.setdefault(subject.outcome, Lock())
        if not turn.acquire(timeout=_TURN_S):
            return None
        try:
            build = self._refreshed(context, subject)
        except Stopped:
            raise
        except Unsettled:
            return None
        except (QueryFailed, StoreUnavailable) as error:
            log.warning("outcomes_not_refreshed", error=str(error))
            return None
        finally:
            turn.release()
        return None if build is None else StoredBuild(build, _places(context))

    def note_direct(self, context: QueryContext, took_s: float) -> None:
        """A question about a funnel was evaluated directly, in that time."""
        if (
            not self.is_enabled
            or context.funnel_id is None
            or not context.is_fresh
            or took_s * 1000 < self._settings.stored_outcomes_after_ms
            or not is_storable(context.saved_definition)
        ):
            return
        subject = _subject_of(context)
        if (
            self._mark(subject.outcome) is None
            and subject.outcome not in self._not_storable
            and self._is_of_funnel(subject.outcome, context.workspace_id, context.funnel_id)
        ):
            with self._state:
                self._requests[subject.outcome] = _Request(
                    subject, context.workspace_id, context.funnel_id
                )
            self.worker.wake()

    def _mark(self, outcome: str) -> Mark | None:
        with self._state:
            return self._marks.get(outcome)

    def _refreshed(self, context: QueryContext, subject: Subject) -> str | None:
        """The build, after folding what changed; None when that is too much. In turn."""
        mark = self._mark(subject.outcome)
        if mark is None:
            return None
        backlog = self._tables.backlog(subject.website_ids, mark)
        if backlog.has_lost:
            self._forget(mark, "events_deleted")
            return None
        at_ms = context.params.evaluated_at_ms
        if at_ms < mark.read_until_ms:
            next_ms = context.profile.next_event_ms
            if backlog.events or (next_ms is not None and next_ms <= mark.read_until_ms):
                return None
        elif backlog.events or 0 < mark.next_event_ms <= at_ms:
            if backlog.events > _FEW_EVENTS:
                self.worker.wake()
                return None
            refreshed = self._fold_changed(subject, mark, backlog, at_ms, _FEW_UNITS)
            if refreshed is None:
                self.worker.wake()
                return None
            mark = refreshed
        self._remember(
            replace(mark, events_block=backlog.block, asked_at_ms=self._clock()), save=False
        )
        return mark.build

    def _fold_changed(
        self, subject: Subject, mark: Mark, backlog: Backlog, at_ms: int, most: int
    ) -> Mark | None:
        """The mark after folding changed units; None, with nothing done, for more than `most`."""
        try:
            changes = self._tables.changes(subject, mark, at_ms, most)
        except NotStorable:
            self._not_storable.add(mark.outcome)
            self._forget(mark, "provider_events")
            return None
        if changes is None:
            return None
        mark = self._tables.refresh(subject, mark, backlog, changes, at_ms)
        self._remember(mark, save=not changes.none)
        return mark

    def _remember(self, mark: Mark, *, save: bool) -> None:
        if save:
            self._tables.save(mark)
        with self._state:
            self._marks[mark.outcome] = mark

    def _forget(self, mark: Mark, reason: str) -> None:
        """Its rows answer no question from now on; the worker drops them."""
        log.info("outcomes_dropped", funnel_id=mark.funnel_id, reason=reason)
        with self._state:
            held = self._marks.get(mark.outcome)
            if held is not None and held.build == mark.build:
                del self._marks[mark.outcome]
            self._leaving[mark.build] = self._clock()
        self._tables.save(replace(mark, build=""))
        self.worker.wake()

    # What the worker does.

    def _step(self) -> None:
        with self._background():
            self._load()
            self._build_requested()
            for mark in self._all_marks():
                self.worker.report_progress()
                self._maintain(mark)
            self._drop_leaving()
            self._compare_some()

    @contextmanager
    def _background(self) -> Iterator[None]:
        """Statements of one thread, so that the intake and questions keep theirs."""
        self._work = Work(
            {
                "max_threads": 1,
                "max_execution_time": _BUILD_S,
                "max_memory_usage": self._settings.query_memory_bytes,
            }
        )
        try:
            with working_on(self._work):
                yield
        except Stopped:
            raise WorkerStopped from None
        finally:
            self._work = None

    def _load(self) -> None:
        """At the start: the marks, and away with rows that have none."""
        if self._is_loaded:
            return
        marks = self._tables.marks()
        self._tables.drop(self._tables.builds() - {mark.build for mark in marks})
        with self._state:
            self._marks.update({mark.outcome: mark for mark in marks})
        self._is_loaded = True

    def _build_requested(self) -> None:
        with self._state:
            requests = list(self._requests.items())
        for outcome, request in requests:
            self.worker.report_progress()
            if self._has_room() and self._mark(outcome) is None:
                self._build(request)
            with self._state:
                self._requests.pop(outcome, None)

    def _has_room(self) -> bool:
        """Whether one more may be stored; the one that was asked for longest ago makes room."""
        marks = sorted(self._all_marks(), key=lambda mark: mark.asked_at_ms)
        if len(marks) < self._settings.stored_outcomes:
            return True
        if marks[0].asked_at_ms > self._clock() - _ASKED_OFTEN_MS:
            return False
        self._forget(marks[0], "room_needed")
        return True

    def _build(self, request: _Request) -> None:
        now_ms = self._clock()
        build = new_id("bld", now_ms)
        outcome = request.subject.outcome
        mark = Mark(
            outcome, build, request.workspace_id, request.funnel_id, 0, 0, now_ms, 0, now_ms
        )
        try:
            filled = self._tables.fill(request.subject, mark)
        except NotStorable:
            self._not_storable.add(outcome)
            return
        except BaseException:
            _BUILDS.labels("failed").inc()
            with self._state:
                self._leaving[build] = 0
            raise
        self._remember(filled, save=True)
        _BUILDS.labels("done").inc()
        took_s = (self._clock() - now_ms) / 1000
        log.info("outcomes_stored", funnel_id=request.funnel_id, seconds=took_s)

    def _maintain(self, mark: Mark) -> None:
        """Drop what nobody needs, and fold what is too much for a question."""
        subject = self._subject_of_mark(mark)
        if subject is None:
            self._forget(mark, "funnel_changed")
            return
        if mark.asked_at_ms < self._clock() - _UNASKED_MS:
            self._forget(mark, "not_asked")
            return
        with self._turns.setdefault(mark.outcome, Lock()):
            mark = self._mark(mark.outcome) or mark
            backlog = self._tables.backlog(subject.website_ids, mark)
            if backlog.has_lost:
                self._forget(mark, "events_deleted")
                self._request_again(subject, mark)
            elif backlog.events > _FEW_EVENTS // 10:
                at_ms = max(self._clock(), mark.read_until_ms)
                refreshed = self._fold_changed(subject, mark, backlog, at_ms, _MANY_UNITS)
                if refreshed is None and mark.outcome not in self._not_storable:
                    self._forget(mark, "much_changed")
                    self._request_again(subject, mark)

    def _compare_some(self) -> None:
        """Now and then, compare some units of one outcome with their events."""
        now_ms = self._clock()
        marks = self._all_marks()
        if not marks or now_ms < self._compared_at_ms + _COMPARED_EVERY_MS:
            return
        self._compared_at_ms = now_ms
        self._comparisons += 1
        mark = marks[self._comparisons % len(marks)]
        if self._agrees(mark, _COMPARED_SHARE) is False:
            raise OutcomesDiffer(f"funnel {mark.funnel_id}")

    def _agrees(self, mark: Mark, share: int) -> bool | None:
        """Whether rows agree with events; if not, they are dropped and built again.

        None: events came in meanwhile, or the funnel has changed.
        """
        subject = self._subject_of_mark(mark)
        if subject is None:
            return None
        with self._turns.setdefault(mark.outcome, Lock()):
            held = self._mark(mark.outcome)
            agrees = None if held is None else self._tables.agrees(subject, held, share)
            if held is not None and agrees is False:
                _DIFFERENCES.inc()
                log.error("outcomes_differ", funnel_id=mark.funnel_id)
                self._forget(held, "outcomes_differ")
                self._request_again(subject, held)
        return agrees

    def verify(self) -> Iterator[tuple[str, bool | None]]:
        """Compare all stored outcomes with their events, and build those that differ again.

        Yields funnel IDs and whether they agreed; None where that cannot be said. For a process
        without a running worker.
        """
        with self._background():
            self._load()
            for mark in self._all_marks():
                yield mark.funnel_id, self._agrees(mark, share=1)
            self._build_requested()

    def _request_again(self, subject: Subject, mark: Mark) -> None:
        with self._state:
            self._requests[mark.outcome] = _Request(subject, mark.workspace_id, mark.funnel_id)

    def _drop_leaving(self) -> None:
        before_ms = self._clock() - _LEAVE_MS
        with self._state:
            builds = [build for build, at_ms in self._leaving.items() if at_ms <= before_ms]
        self._tables.drop(builds)
        with self._state:
            for build in builds:
                self._leaving.pop(build, None)

    def _all_marks(self) -> list[Mark]:
        with self._state:
            return list(self._marks.values())

    def _subject_of_mark(self, mark: Mark) -> Subject | None:
        """What a mark's funnel counts now, if that is what the rows are of."""
        subjects = self._subjects(mark.workspace_id, mark.funnel_id)
        return next((each for each in subjects if each.outcome == mark.outcome), None)

    def _is_of_funnel(self, outcome: str, workspace_id: WorkspaceId, funnel_id: str) -> bool:
        """Whether an outcome is of the funnel's current revision."""
        return any(each.outcome == outcome for each in self._subjects(workspace_id, funnel_id))

    def _subjects(self, workspace_id: WorkspaceId, funnel_id: str) -> Sequence[Subject]:
        """What can be stored of a funnel: over all websites, and over each."""
        try:
            _, saved = self._funnels.definition_at(workspace_id, funnel_id, None)
            definition = self._funnels.resolve(workspace_id, saved)
        except (NotFound, Malformed, Conflict):
            return ()
        websites = self._websites.select_websites(workspace_id, None)
        ids = tuple(WebsiteId(website.id) for website in websites)
        return [Subject(definition, scope) for scope in (ids, *((website,) for website in ids))]

    def _run(self, statement: Statement) -> Sequence[Sequence[Any]]:
        return self._warehouse.query(statement.sql, statement.parameters, ENGINE_SETTINGS)[1]


def _subject_of(context: QueryContext) -> Subject:
    return Subject(context.saved_definition, context.params.website_ids)


def _places(context: QueryContext) -> tuple[int, ...]:
    """The places of the question's breakdown properties among the stored ones, from 1."""
    stored = context.saved_definition.breakdown_properties
    return tuple(stored.index(name) + 1 for name in context.definition.breakdown_properties)
