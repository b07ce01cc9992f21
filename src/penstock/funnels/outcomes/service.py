"""Which questions stored outcomes answer, and the worker that builds and drops them.

A question asks `current`: rows that know every event of its data, after folding the units that
changed since. Where that is not possible, or would take long, it evaluates the events directly.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import structlog
from anyio import CancelScope, CapacityLimiter, to_thread

from penstock.accounts.websites.service import WebsiteService
from penstock.base.clock import LATEST_MS, Clock
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
_RETIRE_AFTER_MS = 120_000
"""Statements that were about to read a build have begun within this time."""
_RETRY_MS = 600_000
"""How long an outcome is not built again after its build failed."""
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
        self._retired_builds: dict[str, int] = {}  # builds without a mark, and since when
        self._read_until_ms: dict[str, int] = {}  # per build: what a fold that failed may have read
        self._reading: Counter[str] = Counter()  # statements that read each build
        self._in_doubt: set[str] = set()  # outcomes that a question failed to fold
        self._not_before_ms: dict[str, int] = {}  # when an outcome that failed may be built again
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
            if self._warehouse.folder is not None:
                await to_thread.run_sync(self._drop_all)
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
        if mark is None or not context.is_fresh or subject.outcome in self._in_doubt:
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

    def holds(self, context: QueryContext, build: StoredBuild) -> bool:
        """Whether rows have no event that occurred after the question's evaluation time.

        Another question may have folded such an event since `current`.
        """
        at_ms = context.params.evaluated_at_ms
        with self._state:
            read_until_ms = self._read_until_ms.get(build.name, LATEST_MS)
        return self._has_none_between(_subject_of(context), at_ms, read_until_ms)

    @contextmanager
    def reading(self, build: StoredBuild) -> Iterator[None]:
        """While a statement reads rows: they are not dropped."""
        with self._state:
            self._reading[build.name] += 1
        try:
            yield
        finally:
            with self._state:
                self._reading[build.name] -= 1
                if not self._reading[build.name]:
                    del self._reading[build.name]

    def note_failed(self, context: QueryContext, build: StoredBuild) -> None:
        """A statement over stored rows failed: they answer no other question."""
        outcome = _subject_of(context).outcome
        with self._turns.setdefault(outcome, Lock()):
            mark = self._mark(outcome)
            if mark is not None and mark.build == build.name:
                try:
                    self._forget(mark, "statement_failed")
                except (QueryFailed, StoreUnavailable) as error:
                    log.warning("outcomes_not_dropped", error=str(error))

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
            and self._clock() >= self._not_before_ms.get(subject.outcome, 0)
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
            if backlog.events or not self._has_none_between(subject, at_ms, mark.read_until_ms):
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

    def _has_none_between(self, subject: Subject, after_ms: int, until_ms: int) -> bool:
        """Whether no event of the subject occurred after one time and up to another."""
        return after_ms >= until_ms or not (
            0 < self._tables.next_event(subject, after_ms) <= until_ms
        )

    def _fold_changed(
        self, subject: Subject, mark: Mark, backlog: Backlog, at_ms: int, most: int
    ) -> Mark | None:
        """The mark after folding changed units; None, with nothing done, for more than `most`."""
        try:
            changes = self._tables.changes(subject, mark, backlog, at_ms, most)
            if changes is None:
                return None
            with self._state:
                self._read_until_ms[mark.build] = max(at_ms, self._read_until_ms[mark.build])
            mark = self._tables.refresh(subject, mark, backlog, changes, at_ms)
            self._remember(mark, save=not changes.none)
        except NotStorable:
            self._not_storable.add(mark.outcome)
            self._forget(mark, "provider_events")
            return None
        except BaseException:
            # Some rows may know more than the mark: the worker looks, and folds the rest.
            self._in_doubt.add(mark.outcome)
            self.worker.wake()
            raise
        return mark

    def _remember(self, mark: Mark, *, save: bool) -> None:
        """What rows know now. In turn if they are not new: nobody has dropped them meanwhile."""
        if save:
            self._tables.save(mark)
        with self._state:
            self._marks[mark.outcome] = mark
            self._read_until_ms[mark.build] = max(
                mark.read_until_ms, self._read_until_ms.get(mark.build, 0)
            )

    def _forget(self, mark: Mark, reason: str) -> None:
        """Its rows answer no question from now on; the worker drops them. In turn."""
        log.info("outcomes_dropped", funnel_id=mark.funnel_id, reason=reason)
        # Saved first: rows leave only when no mark speaks of them, whatever fails.
        self._tables.save(replace(mark, build=""))
        with self._state:
            self._marks.pop(mark.outcome, None)
            self._in_doubt.discard(mark.outcome)
            self._retired_builds[mark.build] = self._clock()
        self.worker.wake()

    # What the worker does.

    def _step(self) -> None:
        with self._background():
            self._load()
            errors: list[Exception] = []  # one outcome's trouble is not another's
            tasks: list[Callable[[], None]] = [
                self._drop_retired,
                *(partial(self._build, request) for request in self._requested()),
                *(partial(self._maintain, mark) for mark in self._all_marks()),
                self._compare_some,
            ]
            for task in tasks:
                self.worker.report_progress()
                try:
                    task()
                except (Stopped, WorkerStopped):
                    raise
                except Exception as error:
                    errors.append(error)
            if errors:
                raise errors[0]

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
        """At the start: the marks that hold, and away with rows that have none."""
        if self._is_loaded:
            return
        newest, fitting = self._tables.newest(), []
        for mark in self._tables.marks():
            known = newest.get(mark.build)  # None: there are no rows
            # After a kill some rows may know events that no mark counts: their deletion would
            # not be noticed.
            if known is not None and known <= mark.events_block:
                fitting.append(mark)
            else:
                log.info("outcomes_dropped", funnel_id=mark.funnel_id, reason="rows_do_not_fit")
                self._tables.save(replace(mark, build=""))
        self._tables.drop(self._tables.builds() - {mark.build for mark in fitting})
        for mark in fitting:
            self._remember(mark, save=False)
        self._is_loaded = True

    def _drop_all(self) -> None:
        """Nothing is stored any more. Tried again at the next start."""
        try:
            for mark in self._tables.marks():
                self._tables.save(replace(mark, build=""))
            self._tables.drop(self._tables.builds())
        except (QueryFailed, StoreUnavailable) as error:
            log.warning("outcomes_not_dropped", error=str(error))

    def _requested(self) -> list[_Request]:
        """Taken away: what fails does not come back at once."""
        with self._state:
            requests = list(self._requests.values())
            self._requests.clear()
        return requests

    def _has_room(self) -> bool:
        """Whether one more may be stored; the one that was asked for longest ago makes room."""
        marks = sorted(self._all_marks(), key=lambda mark: mark.asked_at_ms)
        if len(marks) < self._settings.stored_outcomes:
            return True
        if marks[0].asked_at_ms > self._clock() - _ASKED_OFTEN_MS:
            return False
        with self._held(marks[0]) as mark:
            if mark is not None:
                self._forget(mark, "room_needed")
        return True

    @contextmanager
    def _held(self, mark: Mark) -> Iterator[Mark | None]:
        """The outcome's turn, with its mark as it is now; None: it has gone."""
        with self._turns.setdefault(mark.outcome, Lock()):
            held = self._mark(mark.outcome)
            yield held if held is not None and held.build == mark.build else None

    def _build(self, request: _Request) -> None:
        outcome = request.subject.outcome
        if self._mark(outcome) is not None or not self._has_room():
            return
        now_ms = self._clock()
        build = new_id("bld", now_ms)
        mark = Mark(
            outcome, build, request.workspace_id, request.funnel_id, 0, 0, now_ms, 0, now_ms
        )
        try:
            self._remember(self._tables.fill(request.subject, mark), save=True)
        except NotStorable:
            self._not_storable.add(outcome)
            return
        except BaseException:
            _BUILDS.labels("failed").inc()
            with self._state:
                self._retired_builds[build] = 0
                self._not_before_ms[outcome] = self._clock() + _RETRY_MS
            raise
        _BUILDS.labels("done").inc()
        took_s = (self._clock() - now_ms) / 1000
        log.info("outcomes_stored", funnel_id=request.funnel_id, seconds=took_s)

    def _maintain(self, mark: Mark) -> None:
        """Drop what nobody needs, and fold what is too much for a question."""
        subject = self._subject_of_mark(mark)
        with self._held(mark) as held:
            if held is None:
                return
            if subject is None:
                self._forget(held, "funnel_changed")
            elif held.asked_at_ms < self._clock() - _UNASKED_MS:
                self._forget(held, "not_asked")
            else:
                self._fold_many(subject, held)

    def _fold_many(self, subject: Subject, mark: Mark) -> None:
        """In turn."""
        is_in_doubt = mark.outcome in self._in_doubt
        if is_in_doubt and self._tables.newest().get(mark.build, 0) > mark.events_block:
            self._forget(mark, "fold_failed")
            self._request_again(subject, mark)
            return
        backlog = self._tables.backlog(subject.website_ids, mark)
        if backlog.has_lost:
            self._forget(mark, "events_deleted")
            self._request_again(subject, mark)
        elif is_in_doubt or backlog.events > _FEW_EVENTS // 10:
            at_ms = max(self._clock(), mark.read_until_ms)
            refreshed = self._fold_changed(subject, mark, backlog, at_ms, _MANY_UNITS)
            if refreshed is not None:
                self._in_doubt.discard(mark.outcome)
            elif mark.outcome not in self._not_storable:
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
        # Others each time, so that in the end every unit was compared.
        which = self._comparisons // len(marks) % _COMPARED_SHARE
        if self._agrees(mark, (_COMPARED_SHARE, which)) is False:
            raise OutcomesDiffer(f"funnel {mark.funnel_id}")

    def _agrees(self, mark: Mark, share: tuple[int, int]) -> bool | None:
        """Whether rows agree with events; if not, they are dropped and built again.

        None: events were deleted meanwhile, or the funnel has changed.
        """
        subject = self._subject_of_mark(mark)
        if subject is None:
            return None
        with self._held(mark) as held:
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
                yield mark.funnel_id, self._agrees(mark, (1, 0))
            for request in self._requested():
                self._build(request)

    def _request_again(self, subject: Subject, mark: Mark) -> None:
        with self._state:
            self._requests[mark.outcome] = _Request(subject, mark.workspace_id, mark.funnel_id)

    def _drop_retired(self) -> None:
        before_ms = self._clock() - _RETIRE_AFTER_MS
        with self._state:
            builds = [
                build
                for build, at_ms in self._retired_builds.items()
                if at_ms <= before_ms and not self._reading[build]
            ]
        self._tables.drop(builds)
        with self._state:
            for build in builds:
                self._retired_builds.pop(build, None)
                self._read_until_ms.pop(build, None)

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
