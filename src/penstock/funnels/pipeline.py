"""The path of every funnel query, from a request to rows. Each step has one place:

    1  resolve the definition     `queries.resolve.resolve_definition`
    2  authorise the websites     `queries.scope.authorise_websites`
    3  wait for freshness         `WaitUntilShipped` of the events room
    4  snapshot the data          `queries.snapshot.SnapshotReader.take`
    5  look up the cache          `queries.single_flight_cache.SingleFlightCache.get`
    6  run                        `FunnelQueryRunner._run`, `queries.engine.Engine.run`
    7  shape the answer           `results.shaping`, `insights`, `comparisons`, `units`

`prepare` runs steps 1 to 4 once per answer, `fetch` runs steps 5 and 6 once per statement. Values
are passed forward and never changed afterwards.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from hashlib import sha256
from time import monotonic
from typing import Any, TypeVar

import structlog

from penstock.accounts.websites.service import WebsiteService
from penstock.base.clock import Clock
from penstock.base.errors import StoreUnavailable
from penstock.base.ids import WorkspaceId
from penstock.base.metrics import counter
from penstock.funnels.outcomes.service import OutcomeService
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.engine import Engine, EngineRows
from penstock.funnels.queries.parameters import Selection, check_cohort, query_params
from penstock.funnels.queries.provenance import Provenance, QueryResult
from penstock.funnels.queries.resolve import DefinitionSource, resolve_definition
from penstock.funnels.queries.schema import DirectReason, ServedFrom
from penstock.funnels.queries.scope import authorise_websites
from penstock.funnels.queries.single_flight_cache import NotCached, SingleFlightCache
from penstock.funnels.queries.snapshot import SnapshotReader
from penstock.funnels.saved.service import FunnelService
from penstock.funnels.statements.query import DataProfile, Statement
from penstock.settings import Settings
from penstock.warehouse.client import WaitUntilShipped, Warehouse
from penstock.warehouse.errors import QueryFailed

log = structlog.get_logger()

_LOOKUPS = counter(
    "penstock_funnel_cache_lookups", "Lookups in the cache of funnel results.", ["outcome"]
)
_MAX_CACHED_ROWS, _MAX_CACHED_ROWS_PER_RESULT = 20_000, 1_000
"""A row, one cohort's numbers, takes one to two kilobytes."""


T = TypeVar("T")

RowBlocks = Iterator[list[dict[str, Any]]]
"""Rows by column name, in blocks."""

BuildStatement = Callable[[DataProfile], Statement]
"""The statement that answers over data with a profile: over events, or over stored outcomes."""


class FunnelQueryRunner:
    """Runs the steps. Methods block: call them from a worker thread."""

    def __init__(
        self,
        warehouse: Warehouse,
        websites: WebsiteService,
        funnels: FunnelService,
        settings: Settings,
        clock: Clock,
        *,
        wait_until_shipped: WaitUntilShipped,
        outcomes: OutcomeService,
    ) -> None:
        self._outcomes = outcomes
        self._websites, self._funnels, self._clock = websites, funnels, clock
        self._wait_until_shipped, self._fresh_wait_s = (
            wait_until_shipped,
            settings.limits.fresh_wait_s,
        )
        self._engine = Engine(warehouse, settings, clock)
        self._snapshots = SnapshotReader(warehouse, clock)
        self._cache: SingleFlightCache[EngineRows] = SingleFlightCache(
            max_weight=_MAX_CACHED_ROWS,
            weigh=lambda rows: 1 + len(rows.rows),
            max_value_weight=_MAX_CACHED_ROWS_PER_RESULT,
        )

    def prepare(
        self,
        workspace_id: WorkspaceId,
        source: DefinitionSource,
        selection: Selection,
        *,
        only_cached: bool = False,
    ) -> QueryContext:
        """Steps 1 to 4.

        only_cached: only for rows that are cached and current, without waiting; if there are none,
        `NotCached`, here or from `fetch`.

        NotFound (funnel), Unauthorized (website of another workspace), Invalid (cohort filter),
        Malformed (revision), Conflict (as of `FunnelService.resolve`), Unavailable (engine).
        """
        funnel = resolve_definition(self._funnels, workspace_id, source)
        check_cohort(funnel.definition, selection.cohort)
        scope = authorise_websites(self._websites, workspace_id, selection.website_id)
        is_fresh = self._wait_until_shipped(0 if only_cached else self._fresh_wait_s)
        if only_cached and not is_fresh:
            raise NotCached
        params = query_params(scope, selection, self._clock())
        with self._engine.explaining():
            if only_cached:
                snapshot = self._snapshots.take_cached(workspace_id, funnel.definition, params)
            else:
                snapshot = self._snapshots.take(
                    workspace_id, funnel.definition, params, is_fresh=is_fresh
                )
        return QueryContext(
            workspace_id=workspace_id,
            funnel_id=funnel.funnel_id,
            revision=funnel.revision,
            definition=funnel.definition,
            saved_definition=funnel.definition,
            website_id=selection.website_id,
            is_fresh=is_fresh,
            params=snapshot.params,
            profile=snapshot.profile,
            version=snapshot.version,
            only_cached=only_cached,
        )

    def fetch(self, context: QueryContext, build_statement: BuildStatement) -> QueryResult:
        """Steps 5 and 6: the rows of one statement and their provenance. Unavailable (engine).

        Equal statements at the same time run once. Rows are reused while the data stay the same.
        `NotCached` if the context allows only cached rows, and there are none.
        """
        build_once = cache(build_statement)
        compute = partial(self._compute_rows, context, build_once)
        return self._fetch(context, build_once(context.profile), compute)

    def fetch_events(self, context: QueryContext, statement: Statement) -> QueryResult:
        """As `fetch`, for a statement that reads only the events of single units."""
        return self._fetch(context, statement, partial(self._engine.run, statement))

    def _fetch(
        self, context: QueryContext, statement: Statement, compute: Callable[[], EngineRows]
    ) -> QueryResult:
        """statement: over the events themselves; its rows are the same wherever they come from."""
        if context.only_cached:
            rows, is_hit = self._cache.get_cached(_cache_key(context, statement)), True
        elif not context.is_fresh:
            rows, is_hit = compute(), False
        else:
            with self._engine.explaining():
                rows, is_hit = self._cache.get(
                    _cache_key(context, statement),
                    compute,
                    is_current=lambda: self._snapshots.is_unchanged(
                        context.params, context.version
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
                is_fresh=context.is_fresh,
                direct_reason=None if is_hit else rows.direct_reason,
            ),
        )

    def stream(
        self,
        context: QueryContext,
        build_statement: BuildStatement,
        read: Callable[[RowBlocks], None],
    ) -> None:
        """Step 6 alone, in blocks, for answers too long to hold in memory or in the cache.

        read: reads the blocks of a whole answer. It is called again from the first block on when
        stored outcomes fail; then the first answer is void.
        """

        def run(statement: Statement) -> None:
            with self._engine.stream(statement) as blocks:
                read(blocks)

        self._run(context, build_statement, run)

    def deadline(self) -> Callable[[], None]:
        """As `Engine.deadline`."""
        return self._engine.deadline()

    def now_ms(self) -> int:
        return self._clock()

    def _compute_rows(self, context: QueryContext, build_statement: BuildStatement) -> EngineRows:
        rows, reason = self._run(context, build_statement, self._engine.run)
        return rows._replace(is_stored=reason is None, direct_reason=reason)

    def _run(
        self, context: QueryContext, build_statement: BuildStatement, run: Callable[[Statement], T]
    ) -> tuple[T, DirectReason | None]:
        """Rows that are not cached: from stored outcomes, or from events.

        Returns the result of `run`, and why it read events; None if it read stored outcomes. A
        statement over stored outcomes that fails, or whose rows may include later events, is run
        again over events.
        """
        build = self._outcomes.current(context)
        if isinstance(build, DirectReason):
            reason = build
        else:
            try:
                with self._outcomes.reading(build):
                    result = run(build_statement(replace(context.profile, build=build)))
                    if self._outcomes.holds(context, build):
                        return result, None
                reason = DirectReason.BEHIND
            except (QueryFailed, StoreUnavailable) as error:
                # Neither stopped nor over a limit, which the events would exceed as well. A stream
                # that breaks off looks like a store that does not answer.
                log.warning("outcomes_not_read", funnel_id=context.funnel_id, error=str(error))
                self._outcomes.note_failed(context, build, error)
                reason = DirectReason.NOT_STORED
        began_s = monotonic()
        result = run(build_statement(context.profile))
        self._outcomes.note_direct(context, monotonic() - began_s)
        return result, reason


def _cache_key(context: QueryContext, statement: Statement) -> bytes:
    """A hash of everything that the rows of a statement depend on."""
    parts = (
        context.workspace_id,
        context.version,
        statement.sql,
        sorted(statement.parameters.items()),
    )
    return sha256(repr(parts).encode("utf-8", "surrogatepass")).digest()
