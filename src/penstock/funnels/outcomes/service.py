"""Answers queries from stored outcomes, shows their state and drops them.

A query needs rows that include every event of its data: the units that changed are evaluated again
first. If that is not possible or would take too long, the query reads events.
"""

from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from time import monotonic, sleep

import structlog

from penstock.base.clock import Clock
from penstock.base.errors import StoreUnavailable, Unavailable
from penstock.base.ids import WorkspaceId
from penstock.funnels.outcomes import nodes, policy, store
from penstock.funnels.outcomes.locked import LockedOutcome, hold
from penstock.funnels.outcomes.model import (
    DROPPED_MS,
    LAST_UNIT,
    DuePosition,
    Mark,
    RowPosition,
    Subject,
    Unsettled,
)
from penstock.funnels.outcomes.schema import OutcomesQuery, OutcomesRecord
from penstock.funnels.outcomes.worker import OutcomeWorker
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.schema import DirectReason
from penstock.funnels.statements.query import StoredBuild
from penstock.funnels.statements.storing import is_storable
from penstock.settings import Settings
from penstock.warehouse.connections import Progress
from penstock.warehouse.errors import QueryFailed, explain_failure
from penstock.warehouse.work import Work, current_work, working_on

log = structlog.get_logger()

_DROP_S = 15.0
"""Seconds that a request to drop outcomes waits until changed units are evaluated."""
_PAUSE_S = 0.01
_QUERY_TIME_SAVED_MS = 1_800_000
"""Length of the intervals in which the first query for an outcome saves its time, in
milliseconds.
"""


class OutcomeService:
    """Answers queries from stored outcomes. Methods block: call them from a worker thread."""

    def __init__(self, worker: OutcomeWorker, settings: Settings, clock: Clock) -> None:
        self._worker, self._settings, self._clock = worker, settings, clock
        self._cache, self._rows = worker.cache, worker.cache.rows
        self._database = worker.cache.database

    def find_build(self, context: QueryContext) -> StoredBuild | DirectReason:
        """Return rows that include all events of the query's data, or the reason to read events."""
        if not _is_answered_by_rows(context):
            return _reason_for_request(context)
        subject = _subject_of(context)
        build = self._current_build(context, subject)
        if build is not None:
            return build
        if self._cache.mark(subject.outcome) is not None:
            return DirectReason.BEHIND
        return self._reason_without_rows(subject, is_saved=context.funnel_id is not None)

    def _current_build(self, context: QueryContext, subject: Subject) -> StoredBuild | None:
        """Return the build whose rows include all events of the query's data, if there is one."""
        if self._cache.mark(subject.outcome) is None or not context.is_fresh:
            return None
        at_ms = context.params.evaluated_at_ms
        try:
            shipment = self._await_shipments(subject)
            with hold(self._cache, subject.outcome, policy.SHORT_LOCK_S) as locked:
                if locked is None:
                    return None
                server = self._rows.await_copy()
                build = self._refresh(subject, locked, at_ms, shipment)
            if build is None:
                return None
            return StoredBuild(build, _stored_indexes(context), server)
        except Unsettled:
            self._worker.worker.wake()
            return None
        except (QueryFailed, StoreUnavailable) as error:
            log.warning("outcomes_not_refreshed", error=str(error))
            self._worker.worker.wake()
            return None

    def _await_shipments(self, subject: Subject) -> int:
        """Wait until the complete shipments have every event that the query's version counts, and
        return the number of the last one.

        Those that have a number now do; so do fewer while no later one has stored an event of the
        websites. Raises `Unsettled` if they take too long.
        """
        until_s, shipments = monotonic() + policy.SHORT_LOCK_S, self._worker.read_shipments()
        newest = shipments.newest
        while shipments.complete < newest and self._rows.newer_events(
            subject.website_ids, shipments.complete
        ):
            if monotonic() > until_s:
                raise Unsettled
            sleep(_PAUSE_S)
            shipments = self._worker.read_shipments()
        return shipments.complete

    def _refresh(
        self, subject: Subject, locked: LockedOutcome, at_ms: int, shipment: int
    ) -> str | None:
        """Evaluate units again that have changed up to this time, and return the build.

        shipment: see `OutcomeRows.backlog`. Returns None if the rows cannot be used, or too many
        units have changed.
        """
        mark = locked.mark
        if mark is None:
            self._cache.forget(subject.outcome)
            return None
        if locked.is_interrupted:
            self._worker.worker.wake()
            return None
        mark = self._note_query(mark)
        backlog = self._rows.backlog(subject.website_ids, mark, shipment)
        if backlog.has_lost:
            locked.retire("events_deleted")
            return None
        if at_ms < mark.read_until_ms:
            if policy.is_ahead(mark, self._clock()):
                self._worker.worker.wake()
            until_ms = mark.read_until_ms
            if backlog.events or self._rows.has_event_between(subject, at_ms, until_ms):
                return None
        elif backlog.events or 0 < mark.next_event_ms <= at_ms:
            refreshed: Mark | None = None
            if backlog.events <= policy.FEW_EVENTS:
                # Use a separate `Work` that continues if the client disconnects, because rows that
                # are only partly updated are useless.
                request = current_work() or Work()
                limit = policy.units_worth_evaluating(backlog)
                with working_on(Work(request.limits, request.owner)):
                    refreshed = locked.fold_changes(subject, mark, backlog, at_ms, limit)
            if refreshed is None:
                self._worker.worker.wake()
                return None
            mark = refreshed
        self._cache.remember(replace(mark, shipment=backlog.shipment))
        return mark.build

    def _note_query(self, mark: Mark) -> Mark:
        """Record the query, so that the worker keeps the outcome and no node drops it."""
        now_ms = self._clock()
        noted = replace(mark, queried_at_ms=max(now_ms, mark.queried_at_ms))
        if now_ms // _QUERY_TIME_SAVED_MS > mark.queried_at_ms // _QUERY_TIME_SAVED_MS:
            self._rows.save(noted)  # The rows are the same, so the mark keeps its number.
        self._cache.remember(noted)
        return noted

    def _reason_without_rows(self, subject: Subject, *, is_saved: bool) -> DirectReason:
        definition = subject.definition
        if not self._worker.is_enabled:
            return DirectReason.OFF
        if not definition.attempt_keys:
            return DirectReason.VISITOR_FUNNEL
        if definition.has_one_visitor:
            return DirectReason.VISITOR_KEY
        if definition.read_touches:
            return DirectReason.TOUCHES
        if definition.reads_visitors:
            return DirectReason.VISITORS
        if not definition.is_by_entry:
            return DirectReason.BREAKDOWN_AT
        if not is_storable(definition):
            return DirectReason.TOO_MANY_MATCHES
        if not self._cache.is_storable(subject.outcome):
            return DirectReason.PROVIDER_EVENTS
        if self._cache.pending_build(subject.outcome) is not None:
            return DirectReason.BUILDING
        return DirectReason.NOT_STORED if is_saved else DirectReason.PREVIEW

    def changed_units(
        self,
        context: QueryContext,
        build: StoredBuild,
        since: RowPosition,
        entered_from_ms: int,
        max_rows: int,
    ) -> tuple[set[int], RowPosition] | None:
        """Return the units whose rows have changed since a position, and the position after them.

        If the build was replaced, each unit counts that entered since
        `entered_from_ms`. Returns None if the build is no longer in use. Raises `QueryFailed` and
        `StoreUnavailable`.
        """
        subject = _subject_of(context)
        mark = self._cache.mark(subject.outcome)
        if mark is None or mark.build != build.name:
            return None
        if since.build != mark.build:
            since = RowPosition(
                mark.build,
                base=mark.shipment,
                read_until_ms=mark.read_until_ms,
                next_event_ms=mark.next_event_ms,
            )
        rows = self._rows.changed_rows(since, entered_from_ms, max_rows)
        units = {unit for _, unit in rows}
        if len(rows) == max_rows:
            return units, since._replace(version=rows[-1][0], unit=rows[-1][1])
        if 0 < since.next_event_ms <= mark.read_until_ms:
            # These events were stored earlier, so the rows that they change may keep their version.
            units.update(
                self._rows.units_between(
                    subject, since.read_until_ms, mark.read_until_ms, mark.shipment
                )
            )
        return units, RowPosition(
            mark.build,
            since.base,
            mark.shipment,
            LAST_UNIT,
            mark.read_until_ms,
            mark.next_event_ms,
        )

    def due_units(
        self,
        context: QueryContext,
        build: StoredBuild,
        after: DuePosition,
        until_ms: int,
        max_rows: int,
    ) -> tuple[set[int], DuePosition]:
        """Return the open units that entered after a position and up to a time, and the position
        after them. Raises `QueryFailed` and `StoreUnavailable`.
        """
        steps = len(context.definition.steps)
        rows = self._rows.due_units(build.name, steps, after, until_ms, max_rows)
        end = rows[-1] if len(rows) == max_rows else DuePosition(until_ms, LAST_UNIT)
        return {unit for _, unit in rows}, max(after, end)

    def is_valid(self, context: QueryContext, build: StoredBuild) -> bool:
        """Whether rows are still in use, and include no event after the query's evaluation time.

        After `find_build`, another query may have added such an event, a node may have dropped the
        rows, or another server of a cluster, which lacks some, may have taken over.
        """
        subject, at_ms = _subject_of(context), context.params.evaluated_at_ms
        try:
            change, mark = self._cache.read(subject.outcome)
            until_ms = max(change.read_until_ms, mark.read_until_ms)
            return (
                mark.build == build.name
                and not self._rows.has_event_between(subject, at_ms, until_ms)
                and self._rows.copy().server == build.server
            )
        except StoreUnavailable as error:
            log.warning("outcomes_not_checked", error=str(error))
            return False

    def is_used(self, context: QueryContext, build: StoredBuild) -> bool:
        """Whether rows are still in use, so that none of those that were just read was missing.

        Raises `QueryFailed` and `StoreUnavailable`.
        """
        newest = self._cache.read(_subject_of(context).outcome)[1]
        return newest.build == build.name and self._rows.copy().server == build.server

    def keep(self, build: StoredBuild) -> AbstractContextManager[None]:
        """Keep rows from being dropped while a statement reads them."""
        return self._cache.keep(build.name)

    def note_failed(self, context: QueryContext, build: StoredBuild, error: Exception) -> None:
        """Retire rows after a statement over them failed.

        If the server could not be reached, its rows may be correct, so they stay in use.
        """
        if isinstance(error, StoreUnavailable) and not self._rows.is_embedded:
            return
        try:
            with hold(self._cache, _subject_of(context).outcome, policy.SHORT_LOCK_S) as locked:
                mark = None if locked is None else locked.mark
                if locked is not None and mark is not None and mark.build == build.name:
                    locked.retire("statement_failed")
        except (QueryFailed, StoreUnavailable) as error:
            log.warning("outcomes_not_dropped", error=str(error))

    def note_direct(self, context: QueryContext, took_s: float) -> None:
        """Request a build if a query about a saved funnel took long to read events."""
        if (
            not self._worker.is_enabled
            or context.funnel_id is None
            or not context.is_fresh
            or not _is_answered_by_rows(context)
            or took_s * 1000 < self._settings.limits.stored_outcomes_after_ms
            or not is_storable(context.saved_definition)
        ):
            return
        outcome = _subject_of(context).outcome
        if not self._cache.may_build(outcome):
            return
        subject = self._worker.current_subject(context.workspace_id, context.funnel_id, outcome)
        if subject is not None:
            self._cache.request_build(subject, context.workspace_id, context.funnel_id)
            self._worker.worker.wake()

    def has_build(self, context: QueryContext) -> bool:
        """Whether a build for the query is waiting or running. Never blocks."""
        return self._cache.pending_build(_subject_of(context).outcome) is not None

    def status(
        self, workspace_id: WorkspaceId, funnel_id: str, query: OutcomesQuery
    ) -> OutcomesRecord:
        """Return whether the current revision's outcomes are stored, or their build's progress.

        Raises NotFound for an unknown funnel, Unauthorized for a website of another workspace, and
        Conflict under the same conditions as `FunnelService.resolve`.
        """
        subject = self._worker.subject(workspace_id, funnel_id, query.website_id)
        if not self._worker.is_enabled:
            return OutcomesRecord.missing(DirectReason.OFF)
        try:
            change, mark = self._cache.read(subject.outcome)
        except QueryFailed as error:
            raise explain_failure(error) from error
        if mark.build:
            return OutcomesRecord.stored(mark.read_until_ms)
        pending = self._cache.pending_build(subject.outcome)
        if pending is not None and pending.started_at_ms is not None:
            progress = Progress(0, 0)
            with suppress(QueryFailed, StoreUnavailable):
                progress = self._rows.progress(pending.work)
            return OutcomesRecord.pending(pending.started_at_ms, *progress)
        since_ms = nodes.built_since_ms(self._database, change, self._clock())
        if since_ms is not None or pending is not None:
            return OutcomesRecord.pending(since_ms, 0, 0)
        return OutcomesRecord.missing(self._reason_without_rows(subject, is_saved=True))

    def drop(self, workspace_id: WorkspaceId, funnel_id: str, query: OutcomesQuery) -> None:
        """Cancel a build, or drop its rows. After a day, a query may request the build again.

        Raises the same errors as `status`.
        """
        subject = self._worker.subject(workspace_id, funnel_id, query.website_id)
        self._cache.postpone(subject.outcome, DROPPED_MS)
        with self._database.write() as db:
            store.drop_until(db, subject.outcome, self._clock() + DROPPED_MS)
        pending = self._cache.pending_build(subject.outcome)
        if pending is not None:
            pending.is_cancelled = True
            self._rows.stop(pending.work)
        is_built = bool(self._cache.last_change(subject.outcome).build)
        with hold(self._cache, subject.outcome, 0 if is_built else _DROP_S) as locked:
            if locked is not None:
                locked.retire("by_request")
            elif not is_built:  # A node that builds checks for the request after it saves its mark.
                raise Unavailable(
                    "The outcomes are being updated. Try again in a minute.",
                    retry_after_s=60,
                )


def _subject_of(context: QueryContext) -> Subject:
    return Subject(context.saved_definition, context.params.website_ids)


def _reason_for_request(context: QueryContext) -> DirectReason:
    """Return why the rows of the saved definition cannot answer the query."""
    if not context.definition.is_by_entry:
        return DirectReason.BREAKDOWN_AT
    with_internal_traffic = replace(context.definition, internal_traffic=())
    if _is_answered_by_rows(replace(context, definition=with_internal_traffic)):
        return DirectReason.INTERNAL_TRAFFIC
    return DirectReason.AD_HOC


def _is_answered_by_rows(context: QueryContext) -> bool:
    """Whether the rows of the saved definition answer the query.

    They contain everything that is stored. They depend on its steps and window, and have its
    breakdown properties and no others. Entry filters read any property, so they need events.
    """
    if context.params.known is not None:
        return False
    definition, saved = context.definition, context.saved_definition
    keys = saved.breakdown_properties
    is_same = replace(definition, breakdown_properties=keys) == saved
    return is_same and set(definition.breakdown_properties) <= set(keys)


def _stored_indexes(context: QueryContext) -> tuple[int, ...]:
    """Return the indexes of the query's breakdown properties among the stored properties, from
    1.
    """
    stored = context.saved_definition.breakdown_properties
    return tuple(stored.index(name) + 1 for name in context.definition.breakdown_properties)
