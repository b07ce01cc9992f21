"""Answers queries from stored outcomes, shows their state and drops them.

A query needs rows that include every event of its data: the units that changed are evaluated again
first. If that is not possible or would take too long, the query reads events.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import structlog

from penstock.base.clock import Clock
from penstock.base.errors import StoreUnavailable, Unavailable
from penstock.base.ids import WorkspaceId
from penstock.funnels.outcomes import policy
from penstock.funnels.outcomes.locks import LockedOutcome
from penstock.funnels.outcomes.maintenance import OutcomeMaintenance
from penstock.funnels.outcomes.model import DROPPED_MS, Mark, RowChange, Subject, Unsettled
from penstock.funnels.outcomes.schema import OutcomesQuery, OutcomesRecord
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.schema import DirectReason
from penstock.funnels.statements.query import StoredBuild
from penstock.funnels.statements.storing import is_storable
from penstock.settings import Settings
from penstock.warehouse.client import Progress
from penstock.warehouse.errors import QueryFailed, explain_failure
from penstock.warehouse.work import Stopped, Work, current_work, working_on

log = structlog.get_logger()

_LOCK_S = 1.0
"""Time that a query waits for another query to evaluate the same units before it reads events, in
seconds.
"""
_DROP_S = 15.0
"""Seconds that a request to drop outcomes waits until changed units are evaluated."""
_QUERY_TIME_SAVED_MS = 1_800_000
"""Minimum time between two saves of a mark that only record a query for the outcome, in
milliseconds.
"""


class OutcomeService:
    """Answers queries from stored outcomes. Methods block: call them from a worker thread."""

    def __init__(self, maintenance: OutcomeMaintenance, settings: Settings, clock: Clock) -> None:
        self._maintenance, self._settings, self._clock = maintenance, settings, clock
        self._tables, self._registry = maintenance.tables, maintenance.registry
        self._subjects, self._refresher = maintenance.subjects, maintenance.refresher
        self._locks = maintenance.locks

    def find_build(self, context: QueryContext) -> StoredBuild | DirectReason:
        """Return rows that include all events of the query's data, or the reason to read events."""
        if not _is_answered_by_rows(context):
            return _reason_of_question(context)
        subject = _subject_of(context)
        outcome = subject.outcome
        if self._registry.mark(outcome) is None:
            return self._reason_without_rows(subject, is_saved=context.funnel_id is not None)
        if not context.is_fresh:
            return DirectReason.BEHIND
        try:
            with self._locks.hold(outcome, _LOCK_S) as locked:
                build = None if locked is None else self._refreshed_build(context, subject, locked)
        except Stopped:
            raise
        except Unsettled:
            return DirectReason.BEHIND
        except (QueryFailed, StoreUnavailable) as error:
            log.warning("outcomes_not_refreshed", error=str(error))
            return DirectReason.BEHIND
        if build is not None:
            return StoredBuild(build, _places(context))
        if self._registry.mark(outcome) is None:
            return self._reason_without_rows(subject, is_saved=context.funnel_id is not None)
        return DirectReason.BEHIND

    def _reason_without_rows(self, subject: Subject, *, is_saved: bool) -> DirectReason:
        definition = subject.definition
        if not self._maintenance.is_enabled:
            return DirectReason.OFF
        if not definition.attempt_keys:
            return DirectReason.VISITOR_FUNNEL
        if definition.follows_merges:
            return DirectReason.VISITOR_KEY
        if definition.read_touches:
            return DirectReason.TOUCHES
        if definition.reads_visitors:
            return DirectReason.VISITORS
        if not is_storable(definition):
            return DirectReason.TOO_MANY_MATCHES
        if not self._registry.is_storable(subject.outcome):
            return DirectReason.PROVIDER_EVENTS
        if self._registry.pending_build(subject.outcome) is not None:
            return DirectReason.BUILDING
        return DirectReason.NOT_STORED if is_saved else DirectReason.PREVIEW

    def is_valid(self, context: QueryContext, build: StoredBuild) -> bool:
        """Whether rows are still in use, and include no event after the query's evaluation time.

        After `find_build`, another query may have added such an event, or a node may have dropped
        the rows.
        """
        subject = _subject_of(context)
        try:
            change = self._locks.change(subject.outcome)
            mark = self._locks.mark(change)
            if mark is None or mark.build != build.name:
                return False
            read_until_ms = max(change.read_until_ms, mark.read_until_ms)
            return self._has_none_between(subject, context.params.evaluated_at_ms, read_until_ms)
        except StoreUnavailable as error:
            log.warning("outcomes_not_checked", error=str(error))
            return False

    @contextmanager
    def keep(self, build: StoredBuild) -> Iterator[None]:
        """Keep rows from being dropped while a statement reads them."""
        with self._registry.keep(build.name):
            yield

    def note_failed(self, context: QueryContext, build: StoredBuild, error: Exception) -> None:
        """Retire rows after a statement over them failed.

        If the server could not be reached, its rows may be correct, so they stay in use.
        """
        if isinstance(error, StoreUnavailable) and not self._maintenance.is_embedded:
            return
        try:
            with self._locks.hold(_subject_of(context).outcome, _LOCK_S) as locked:
                mark = None if locked is None else locked.mark
                if locked is not None and mark is not None and mark.build == build.name:
                    self._refresher.retire(locked, mark, "statement_failed")
        except (QueryFailed, StoreUnavailable) as error:
            log.warning("outcomes_not_dropped", error=str(error))

    def note_direct(self, context: QueryContext, took_s: float) -> None:
        """Request a build if a query about a saved funnel took long to read events."""
        if (
            not self._maintenance.is_enabled
            or context.funnel_id is None
            or not context.is_fresh
            or not _is_answered_by_rows(context)
            or took_s * 1000 < self._settings.limits.stored_outcomes_after_ms
            or not is_storable(context.saved_definition)
        ):
            return
        subject = _subject_of(context)
        if self._registry.may_build(subject.outcome) and self._subjects.is_current(
            subject, context.workspace_id, context.funnel_id
        ):
            self._registry.request_build(subject, context.workspace_id, context.funnel_id)
            self._maintenance.worker.wake()

    def has_build(self, context: QueryContext) -> bool:
        """Whether a build for the query is waiting or running. Never blocks."""
        return self._registry.pending_build(_subject_of(context).outcome) is not None

    def status(
        self, workspace_id: WorkspaceId, funnel_id: str, query: OutcomesQuery
    ) -> OutcomesRecord:
        """Return whether the current revision's outcomes are stored, or their build's progress.

        Raises NotFound for an unknown funnel, Unauthorized for a website of another workspace, and
        Conflict under the same conditions as `FunnelService.resolve`.
        """
        subject = self._subjects.subject(workspace_id, funnel_id, query.website_id)
        if not self._maintenance.is_enabled:
            return OutcomesRecord.missing(DirectReason.OFF)
        change = self._locks.change(subject.outcome)
        try:
            mark = self._locks.mark(change)
        except QueryFailed as error:
            raise explain_failure(error) from error
        if mark is not None:
            return OutcomesRecord.stored(mark.read_until_ms)
        pending = self._registry.pending_build(subject.outcome)
        if pending is not None and pending.started_at_ms is not None:
            progress = Progress(0, 0)
            with suppress(QueryFailed, StoreUnavailable):
                progress = self._maintenance.progress(pending)
            return OutcomesRecord.pending(pending.started_at_ms, *progress)
        if self._is_built_elsewhere(change):
            return OutcomesRecord.pending(change.opened_at_ms, 0, 0)
        if pending is not None:
            return OutcomesRecord.pending(None, 0, 0)
        return OutcomesRecord.missing(self._reason_without_rows(subject, is_saved=True))

    def _is_built_elsewhere(self, change: RowChange) -> bool:
        """Whether another node is building the outcome, and nobody cancelled the build."""
        is_cancelled = change.dropped_for_ms(self._clock()) > 0
        return bool(change.build) and not is_cancelled and self._locks.is_locked(change.outcome)

    def drop(self, workspace_id: WorkspaceId, funnel_id: str, query: OutcomesQuery) -> None:
        """Cancel a build, or drop its rows. After a day, a query may request the build again.

        Raises the same errors as `status`.
        """
        subject = self._subjects.subject(workspace_id, funnel_id, query.website_id)
        self._registry.postpone(subject.outcome, DROPPED_MS)
        self._locks.drop_until(subject.outcome, self._clock() + DROPPED_MS)
        pending = self._registry.pending_build(subject.outcome)
        if pending is not None:
            self._maintenance.cancel(pending)
        is_built = bool(self._locks.change(subject.outcome).build)
        with self._locks.hold(subject.outcome, 0 if is_built else _DROP_S) as locked:
            if locked is None and is_built:
                return  # the building node checks for the request after it saves its mark
            if locked is None:
                raise Unavailable(
                    "The outcomes are being updated. Try again in a minute.",
                    retry_after_s=60,
                )
            if locked.mark is not None:
                self._refresher.retire(locked, locked.mark, "by_request")

    def _refreshed_build(
        self, context: QueryContext, subject: Subject, locked: LockedOutcome
    ) -> str | None:
        """Evaluate changed units again, and return the build; None if too many have changed."""
        mark = locked.mark
        if mark is None:
            self._registry.forget(subject.outcome)
            return None
        if locked.is_interrupted:
            self._maintenance.worker.wake()
            return None
        mark = self._note_query(mark)
        backlog = self._tables.backlog(subject.website_ids, mark)
        if backlog.has_lost:
            self._refresher.retire(locked, mark, "events_deleted")
            return None
        at_ms = context.params.evaluated_at_ms
        if at_ms < mark.read_until_ms:
            if policy.is_ahead(mark, self._clock()):
                self._maintenance.worker.wake()
            if backlog.events or not self._has_none_between(subject, at_ms, mark.read_until_ms):
                return None
        elif backlog.events or 0 < mark.next_event_ms <= at_ms:
            refreshed: Mark | None = None
            if backlog.events <= policy.FEW_EVENTS:
                # Use a separate `Work` that continues if the client disconnects, because rows that
                # are only partly updated are useless.
                request = current_work() or Work()
                with working_on(Work(request.limits, request.owner)):
                    refreshed = self._refresher.fold_changes(
                        subject,
                        locked,
                        mark,
                        backlog,
                        at_ms,
                        policy.units_worth_evaluating(backlog),
                    )
            if refreshed is None:
                self._maintenance.worker.wake()
                return None
            mark = refreshed
        self._registry.remember(replace(mark, events_block=backlog.block))
        return mark.build

    def _note_query(self, mark: Mark) -> Mark:
        """Record the query, so that the worker keeps the outcome and no node drops it."""
        now_ms = self._clock()
        self._registry.note_query(mark.outcome, now_ms)
        if mark.queried_at_ms < now_ms - _QUERY_TIME_SAVED_MS:
            mark = replace(mark, queried_at_ms=now_ms)
            self._tables.save(mark)  # The rows are the same, so the mark keeps its number.
        self._registry.remember(mark)
        return mark

    def _has_none_between(self, subject: Subject, after_ms: int, until_ms: int) -> bool:
        """Whether no event of the subject occurred between the two times: after the first, and up
        to the second.
        """
        return after_ms >= until_ms or not (
            0 < self._tables.next_event(subject, after_ms) <= until_ms
        )


def _subject_of(context: QueryContext) -> Subject:
    return Subject(context.saved_definition, context.params.website_ids)


def _reason_of_question(context: QueryContext) -> DirectReason:
    """Return why the rows of the saved definition cannot answer the query."""
    with_internal_traffic = replace(context.definition, internal_traffic=())
    if _is_answered_by_rows(replace(context, definition=with_internal_traffic)):
        return DirectReason.INTERNAL_TRAFFIC
    return DirectReason.AD_HOC


def _is_answered_by_rows(context: QueryContext) -> bool:
    """Whether the rows of the saved definition answer the query.

    They depend on its steps and window, and have its breakdown properties and no others. Entry
    filters read any property, so they need events.
    """
    definition, saved = context.definition, context.saved_definition
    keys = saved.breakdown_properties
    is_same = replace(definition, breakdown_properties=keys) == saved
    return is_same and set(definition.breakdown_properties) <= set(keys)


def _places(context: QueryContext) -> tuple[int, ...]:
    """Return the positions of the query's breakdown properties among the stored properties, from
    1.
    """
    stored = context.saved_definition.breakdown_properties
    return tuple(stored.index(name) + 1 for name in context.definition.breakdown_properties)
