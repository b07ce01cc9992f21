"""Runs every funnel query, from a request to rows. Each step has one place:

    1  resolve the definition     `queries.resolve.resolve_definition`
    2  authorise the websites     `queries.scope.authorise_websites`
    3  wait for freshness         `WaitUntilShipped` of the events room
    4  snapshot the data          `queries.snapshot.SnapshotReader.take`
    5  look up the cache          `queries.single_flight_cache.SingleFlightCache.get`
    6  run                        `FunnelQueryRunner._run`, `queries.engine.Engine.run`
    7  shape the response         the function of the question, in the table `questions`

`prepare` runs steps 1 to 4 once per response, and `fetch` runs steps 5 and 6 once per statement.
Values are passed on and never changed afterwards.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cache, partial
from hashlib import sha256
from operator import attrgetter
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import structlog

from penstock.accounts.websites.service import WebsiteService
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, Malformed, NotFound, StoreUnavailable
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.base.metrics import counter
from penstock.funnels.definitions.ad_hoc import AdHocChanges
from penstock.funnels.outcomes.service import OutcomeService
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.coverage import Note, ReadGaps, coverage_of
from penstock.funnels.queries.engine import Engine, EngineRows
from penstock.funnels.queries.parameters import (
    Selection,
    check_cohort,
    query_params,
    unfit_parameters,
)
from penstock.funnels.queries.provenance import Provenance, QueryResult
from penstock.funnels.queries.resolve import (
    DefinitionSource,
    ResolvedFunnel,
    SavedFunnel,
    resolve_definition,
)
from penstock.funnels.queries.schema import (
    CoverageRecord,
    DirectReason,
    PeriodQuery,
    ServedFrom,
)
from penstock.funnels.queries.scope import authorise_websites
from penstock.funnels.queries.single_flight_cache import NotCached, SingleFlightCache
from penstock.funnels.queries.snapshot import SnapshotReader, SnapshotRequest
from penstock.funnels.saved.service import FunnelService
from penstock.funnels.statements.query import DataProfile, Statement
from penstock.funnels.statements.sources import member_texts
from penstock.metadb.database import Database
from penstock.metadb.person import PersonName, ReadPeople, StoredVisitor
from penstock.settings import Settings
from penstock.warehouse.client import WaitUntilShipped, Warehouse
from penstock.warehouse.errors import QueryFailed

log = structlog.get_logger()

_LOOKUPS = counter(
    "penstock_funnel_cache_lookups", "Lookups in the cache of funnel results.", ["outcome"]
)
_MAX_CACHED_ROWS, _MAX_CACHED_ROWS_PER_RESULT = 20_000, 1_000
"""Maximum number of rows in the cache, and per result. A row contains the numbers of one cohort and
takes one to two kilobytes.
"""

_IS_FRESH = attrgetter("is_fresh")

T = TypeVar("T")


class CohortMembers(NamedTuple):
    """The visitors of a saved cohort. keys: their keys. rules: hash of the definition that selects
    them; empty for a list.
    """

    keys: Sequence[int]
    rules: str = ""


ReadMembers = Callable[[WorkspaceId, str], CohortMembers]
"""Returns the visitors of a saved cohort. Raises `NotFound` if there is no such cohort, and
`Malformed` if it cannot be evaluated.
"""

ReadLostEvents = Callable[[Collection[WebsiteId], int | None, int | None], int]
"""A function that returns the number of events that the websites' clients reported as dropped in a
period.
"""

ReadsEverything = Callable[[float], bool]
"""Waits until queries read all rows of the event store. Returns False if that takes longer than the
given number of seconds, because replicas lag.
"""

FindReceipt = Callable[[WorkspaceId, str], str | None]
"""A function that returns the address of the newest receipt of a question (`QueryContext.question`)
in a workspace; None without one.
"""

RowBlocks = Iterator[list[dict[str, Any]]]
"""Blocks of rows. Each row is a dictionary by column name."""

BuildStatement = Callable[[DataProfile], Statement]
"""A function that builds the statement for a data profile, which may describe events or stored
outcomes.
"""


class FunnelQueryRunner:
    """Runs the steps of a query. Its methods block, so call them from a worker thread.

    database: where answers may keep what takes long to compute.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        websites: WebsiteService,
        funnels: FunnelService,
        settings: Settings,
        clock: Clock,
        database: Database,
        *,
        wait_until_shipped: WaitUntilShipped,
        reads_everything: ReadsEverything,
        outcomes: OutcomeService,
        read_people: ReadPeople,
        read_gaps: ReadGaps,
        find_receipt: FindReceipt,
        read_lost_events: ReadLostEvents,
    ) -> None:
        """Create a runner for queries that do not read saved cohorts."""
        self.database = database
        self._read_members: ReadMembers = _read_no_members
        self._read_gaps, self._read_lost_events = read_gaps, read_lost_events
        self._find_receipt = find_receipt
        self._read_people = read_people
        self._outcomes = outcomes
        self._websites, self._funnels, self._clock = websites, funnels, clock
        self._wait_until_shipped = wait_until_shipped
        self._reads_everything = reads_everything
        self._fresh_wait_s = settings.limits.fresh_wait_s
        self._engine = Engine(warehouse, settings, clock)
        self._snapshots = SnapshotReader(warehouse, clock)
        self._cache: SingleFlightCache[EngineRows] = SingleFlightCache(
            max_weight=_MAX_CACHED_ROWS,
            weigh=lambda rows: 1 + len(rows.rows),
            max_value_weight=_MAX_CACHED_ROWS_PER_RESULT,
        )
        self._in_flight: SingleFlightCache[Any] = SingleFlightCache(max_weight=0)

    def with_cohorts(self, read_members: ReadMembers) -> "FunnelQueryRunner":
        """Return a runner that shares the cache of this one, and also reads saved cohorts."""
        runner = copy(self)
        runner._read_members = read_members
        return runner

    def prepare_saved(
        self,
        workspace_id: WorkspaceId,
        funnel_id: str,
        query: PeriodQuery,
        *,
        reads_all_traits: bool = False,
        names_by_trait: bool = True,
    ) -> QueryContext:
        """Prepare a query about a saved funnel, from the parameters of a request. See `prepare`.

        names_by_trait: see `QueryContext`.
        """
        source, selection = SavedFunnel(funnel_id, query.revision), query.selection()
        context = self.prepare(workspace_id, source, selection, reads_all_traits=reads_all_traits)
        return replace(context, names_by_trait=names_by_trait)

    def prepare(
        self,
        workspace_id: WorkspaceId,
        source: DefinitionSource,
        selection: Selection,
        *,
        reads_all_traits: bool = False,
        only_cached: bool = False,
    ) -> QueryContext:
        """Run steps 1 to 4.

        reads_all_traits: whether the rows depend on traits that the definition does not name.
        only_cached: accept only current rows from the cache, without waiting. If there are none,
        this method or `fetch` raises `NotCached`.

        Raises NotFound for an unknown funnel, Unauthorized for a website of another workspace,
        Invalid for a bad cohort filter, Malformed for a saved cohort that cannot be read,
        Unavailable if the engine does not respond, and the same errors as `resolve_definition`.
        """
        funnel = resolve_definition(self._funnels, workspace_id, source, selection.ad_hoc)
        check_cohort(funnel.definition, selection.cohort)
        scope = authorise_websites(self._websites, workspace_id, selection.website_id)
        is_fresh = self._wait_until_shipped(0 if only_cached else self._fresh_wait_s)
        if only_cached and not is_fresh:
            raise NotCached
        now_ms = self._clock()
        if selection.as_of_ms is not None and selection.as_of_ms > now_ms:
            raise unfit_parameters({"asOf": "Must not be in the future."})
        if only_cached and funnel.definition.read_cohorts:
            raise NotCached  # Members must be read or, for rules, counted.
        cohorts = self._read_cohorts(workspace_id, funnel)
        params = replace(
            query_params(scope, selection, now_ms),
            members={id_: member_texts(cohort.keys) for id_, cohort in cohorts.items()},
            reads_all_traits=reads_all_traits,
        )
        request = SnapshotRequest(workspace_id, funnel.definition, params, selection.as_of_ms)
        with self._engine.explain_errors():
            snapshot = self._snapshots.take(request, is_fresh=is_fresh, only_cached=only_cached)
        return QueryContext(
            workspace_id=workspace_id,
            funnel_id=funnel.funnel_id,
            revision=funnel.revision,
            definition=funnel.definition,
            saved_definition=funnel.saved_definition,
            website_id=selection.website_id,
            is_fresh=is_fresh,
            params=snapshot.params,
            profile=snapshot.profile,
            version=snapshot.version,
            ad_hoc=selection.ad_hoc,
            segment=funnel.segment,
            internal_traffic=funnel.internal_traffic,
            cohort_rules=tuple(cohort.rules for cohort in cohorts.values()),
            only_cached=only_cached,
        )

    def ask_otherwise(self, context: QueryContext, changes: AdHocChanges) -> QueryContext:
        """Return a query about the same saved funnel, period and time, with other ad hoc changes.

        It has no cohort filter. Raises the same errors as `prepare`.
        """
        params = context.params
        return self.prepare(
            context.workspace_id,
            SavedFunnel(context.funnel_id or "", context.revision),
            Selection(
                context.website_id,
                params.start_ms,
                params.end_ms,
                ad_hoc=replace(changes, breakdown=(), settled=False),
                as_of_ms=params.evaluated_at_ms,
            ),
            only_cached=context.only_cached,
        )

    def _read_cohorts(
        self, workspace_id: WorkspaceId, funnel: ResolvedFunnel
    ) -> Mapping[str, CohortMembers]:
        """Return the saved cohorts that the funnel and the request name, by ID."""
        cohorts: dict[str, CohortMembers] = {}
        for cohort_id in funnel.definition.read_cohorts:
            try:
                cohorts[cohort_id] = self._read_members(workspace_id, cohort_id)
            except NotFound:
                raise _cohort_gone(cohort_id) from None
        return cohorts

    def move(
        self, context: QueryContext, start_ms: int | None, end_ms: int | None, as_of_ms: int | None
    ) -> QueryContext:
        """Return the same query about another period, evaluated as of a time in the past; None
        leaves its time.

        Raises the same errors as step 4 of `prepare`.
        """
        params = replace(context.params, start_ms=start_ms, end_ms=end_ms)
        request = SnapshotRequest(context.workspace_id, context.definition, params, as_of_ms)
        with self._engine.explain_errors():
            snapshot = self._snapshots.take(
                request, is_fresh=context.is_fresh, only_cached=context.only_cached
            )
        return replace(
            context, params=snapshot.params, profile=snapshot.profile, version=snapshot.version
        )

    def with_all_traits(self, context: QueryContext) -> QueryContext:
        """Return the same query for statements that read all traits of visitors.

        Its rows are computed again after a change of any trait. Raises the same errors as `move`.
        """
        if context.params.reads_all_traits:
            return context
        params = replace(context.params, reads_all_traits=True)
        start_ms, end_ms, at_ms = params.start_ms, params.end_ms, params.evaluated_at_ms
        return self.move(replace(context, params=params), start_ms, end_ms, at_ms)

    def fetch(self, context: QueryContext, build_statement: BuildStatement) -> QueryResult:
        """Run steps 5 and 6, and return the rows of one statement with their provenance.

        Equal statements at the same time run once, and rows are reused until the data change.

        Raises Unavailable if the engine does not respond, and `NotCached` if the context allows
        only cached rows and there are none.
        """
        build_once = cache(build_statement)
        compute = partial(self._compute_rows, context, build_once)
        return self._fetch(context, build_once(context.profile), compute)

    def fetch_events(self, context: QueryContext, statement: Statement) -> QueryResult:
        """Like `fetch`, but for a statement that needs events and cannot read stored outcomes."""
        return self._fetch(context, statement, partial(self._engine.run, statement))

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return what `compute` returns, once for all requests that need it at the same time."""
        value: T = self._in_flight.get(key, compute).value
        return value

    def read_again(self, statement: Statement) -> list[dict[str, Any]]:
        """Run a statement without the cache, and return its rows by column name.

        The cache does not notice when rows are changed in place. Raises Unavailable if the engine
        does not respond.
        """
        rows = self._engine.run(statement)
        return [dict(zip(rows.names, row, strict=True)) for row in rows.rows]

    def _fetch(
        self, context: QueryContext, statement: Statement, compute: Callable[[], EngineRows]
    ) -> QueryResult:
        """Run a statement through the cache.

        statement: the statement over events, which identifies the rows. compute: returns the same
        rows from events or from stored outcomes.
        """
        if context.only_cached:
            key = _cache_key(context, statement)
            rows, is_hit = self._cache.get_cached(key, is_usable=_IS_FRESH), True
        elif not context.is_fresh:
            rows, is_hit = compute(), False
        else:
            with self._engine.explain_errors():
                rows, is_hit = self._cache.get(
                    _cache_key(context, statement),
                    partial(self._compute_fresh, compute),
                    is_usable=_IS_FRESH,
                    is_current=lambda: self._snapshots.is_unchanged(
                        context.definition, context.params, context.version
                    ),
                )
        if context.is_fresh:
            _LOOKUPS.labels("hit" if is_hit else "miss").inc()
        computed_from = ServedFrom.OUTCOMES if rows.is_stored else ServedFrom.QUERY
        served_from = ServedFrom.CACHE if is_hit else computed_from
        return QueryResult(
            [dict(zip(rows.names, row, strict=True)) for row in rows.rows],
            Provenance(
                rows.computed_at_ms,
                served_from,
                is_fresh=context.is_fresh and rows.is_fresh,
                direct_reason=None if is_hit else rows.direct_reason,
            ),
        )

    def _compute_fresh(self, compute: Callable[[], EngineRows]) -> EngineRows:
        """Compute rows, and once more if another replica, which lags, may have been read."""
        rows = compute()
        if self._reads_everything(0.0):
            return rows
        self._reads_everything(self._fresh_wait_s)
        return compute()._replace(is_fresh=self._reads_everything(0.0))

    def stream(
        self,
        context: QueryContext,
        build_statement: BuildStatement,
        read: Callable[[RowBlocks], None],
    ) -> None:
        """Run step 6 in blocks, for results that are too large for memory or the cache.

        read: reads all blocks. If stored outcomes fail, it is called again with all blocks from
        events, and must discard the blocks that it has read before.
        """

        def run(statement: Statement) -> None:
            with self._engine.stream(statement) as blocks:
                read(blocks)

        self._run(context, build_statement, run)

    def coverage(
        self,
        context: QueryContext,
        provenance: Provenance,
        open_windows: int,
        remarks: Iterable[Note] = (),
    ) -> CoverageRecord:
        """See `coverage_of`."""
        gaps = self._read_gaps(context.workspace_id, context.params.website_ids)
        return coverage_of(context, provenance, gaps, open_windows, remarks)

    def receipt(self, context: QueryContext) -> str | None:
        """Return the address of the newest receipt of the same question; None without one."""
        return self._find_receipt(context.workspace_id, context.question)

    def count_lost_events(self, context: QueryContext) -> int:
        """Return the number of events that clients reported as dropped in the period.

        The period here includes the conversion windows of its units.
        """
        params, window_s = context.params, context.definition.window_s
        end_ms = params.end_ms
        if end_ms is not None:
            end_ms = None if window_s is None else end_ms + window_s * 1000
        return self._read_lost_events(params.website_ids, params.start_ms, end_ms)

    def people(
        self, context: QueryContext, visitors: Collection[StoredVisitor]
    ) -> Mapping[StoredVisitor, PersonName]:
        """Return the people behind the visitors that have a user."""
        people = self._read_people(context.workspace_id, visitors)
        return {
            visitor: person if context.names_by_trait else person._replace(name=person.user_id)
            for visitor, person in people.items()
            if person is not None
        }

    def funnel_name(self, context: QueryContext) -> str:
        """Return the name of a saved funnel."""
        return self._funnels.get(context.workspace_id, context.funnel_id or "").name

    def deadline(self) -> Callable[[], None]:
        """See `Engine.deadline`."""
        return self._engine.deadline()

    def now_ms(self) -> int:
        return self._clock()

    def _compute_rows(self, context: QueryContext, build_statement: BuildStatement) -> EngineRows:
        rows, reason = self._run(context, build_statement, self._engine.run)
        return rows._replace(is_stored=reason is None, direct_reason=reason)

    def _run(
        self, context: QueryContext, build_statement: BuildStatement, run: Callable[[Statement], T]
    ) -> tuple[T, DirectReason | None]:
        """Run a statement over stored outcomes, or else over events.

        Returns the result of `run`, and the reason for reading events; None if it read stored
        outcomes. The statement runs again over events if stored outcomes fail or may include later
        events.
        """
        build = self._outcomes.find_build(context)
        if isinstance(build, DirectReason):
            reason = build
        else:
            try:
                with self._outcomes.keep(build):
                    result = run(build_statement(replace(context.profile, build=build)))
                    if self._outcomes.is_valid(context, build):
                        return result, None
                reason = DirectReason.BEHIND
            except (QueryFailed, StoreUnavailable) as error:
                # The query was neither stopped nor over a limit; in both of these cases, reading
                # events would fail too. A stream that breaks off looks like a store that does not
                # respond.
                log.warning("outcomes_not_read", funnel_id=context.funnel_id, error=str(error))
                self._outcomes.note_failed(context, build, error)
                reason = DirectReason.NOT_STORED
        began_s = monotonic()
        result = run(build_statement(context.profile))
        self._outcomes.note_direct(context, monotonic() - began_s)
        return result, reason


def _read_no_members(workspace_id: WorkspaceId, cohort_id: str) -> CohortMembers:
    """Stand in for the reader of members in the runner that evaluates the rules of cohorts."""
    raise Malformed(f"Its funnel names {cohort_id}, and a rule cannot depend on another cohort.")


def _cohort_gone(cohort_id: str) -> Conflict:
    """Return the error for a saved cohort that no longer exists."""
    return Conflict(
        f"This question names the cohort {cohort_id}, which no longer exists. Take it out of the "
        "steps, the filters and the breakdown, or name another.",
        code="cohort_gone",
    )


def _cache_key(context: QueryContext, statement: Statement) -> bytes:
    """Return a hash of everything that determines the rows of a statement."""
    parts = (
        context.workspace_id,
        context.version,
        statement.sql,
        sorted(statement.parameters.items()),
    )
    return sha256(repr(parts).encode("utf-8", "surrogatepass")).digest()
