"""Step 6: runs statements within limits, and turns errors into advice for the caller."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from time import monotonic
from typing import Any, NamedTuple

from penstock.base.clock import Clock
from penstock.base.errors import Unavailable
from penstock.base.patterns import TooLargePattern, program_size
from penstock.funnels.definitions.operands import Regex
from penstock.funnels.definitions.regexes import MAX_TOTAL_SIZE
from penstock.funnels.queries.schema import DirectReason
from penstock.funnels.queries.shared_fold import SharedFolds
from penstock.funnels.statements.query import Statement
from penstock.settings import Settings
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import (
    MEMORY_LIMIT_EXCEEDED,
    TIMEOUT_EXCEEDED,
    QueryFailed,
    explain_failure,
)
from penstock.warehouse.work import current_work

ENGINE_SETTINGS: Mapping[str, Any] = {
    "enable_named_columns_in_function_tuple": 1,  # the fold names the fields of its tuples
    "enable_materialized_cte": 1,
    # Compiling a statement takes as long as several small reports, and makes large reports only 2%
    # faster. So compile only expressions that run often.
    "min_count_to_compile_expression": 50,
    "min_count_to_compile_aggregate_expression": 50,
    "min_count_to_compile_sort_description": 50,
    # Events have wide columns: with the engine's default of 1 MB, a block holds an eighth of the
    # rows, and reading takes a third longer.
    "preferred_block_size_bytes": 16 * 1024**2,
    "prefer_column_name_to_alias": 1,  # totals keep the names of the columns that they add up
    "join_use_nulls": 0,
    "force_grouping_standard_compatibility": 1,
    # Large enough for every definition that `penstock.funnels.definitions.cost` allows. The
    # engine's defaults are lower.
    "max_query_size": 4 * 1024**2,
    "max_ast_elements": 500_000,
    "max_expanded_ast_elements": 5_000_000,
    # These rewrites find nothing in our statements, and trying them takes half the time of a small
    # report.
    "optimize_and_compare_chain": 0,
    "optimize_syntax_fuse_functions": 0,
    "optimize_redundant_comparisons": 0,
    "optimize_extract_common_expressions": 0,
    # These rewrites examine every grouping key and everything below it.
    "optimize_aggregators_of_group_by_keys": 0,
    "optimize_group_by_function_keys": 0,
    "optimize_injective_functions_in_group_by": 0,
    "optimize_redundant_functions_in_order_by": 0,
}

_STEPS_PER_BLOCK = 2**26
"""Steps of RE2 that take about half a second. The engine looks at limits and stops only between
blocks, so a block must not take much longer.
"""
_LONG_TEXT_BYTES = 2048
"""Assumed length of texts. Smaller blocks take more time: a block costs half a millisecond."""

_SUGGESTION = "Use a shorter period or one website, or raise the limit in the workspace's settings."


def settings_of(statement: Statement) -> dict[str, Any]:
    """Return the engine's settings for a statement, except the limits of its work."""
    return {**ENGINE_SETTINGS, **statement.settings, **_block_limits(statement.parameters.values())}


def _block_limits(parameters: Iterable[Any]) -> Mapping[str, Any]:
    """Return the settings that keep blocks small enough for the patterns of a statement.

    `statements.sources.SMALL_BLOCKS` splits the events, and joins must not merge them again.
    """
    size = sum(map(_instructions, {value for value in parameters if isinstance(value, Regex)}))
    if not size:
        return {}
    rows = max(1, _STEPS_PER_BLOCK // (size * _LONG_TEXT_BYTES))
    return {
        "max_block_size": rows,
        "min_joined_block_size_rows": 0,
        "min_joined_block_size_bytes": 0,
    }


@lru_cache(maxsize=500)
def _instructions(pattern: str) -> int:
    """Return the size of a pattern's program. An earlier version may have saved a large one."""
    try:
        return program_size(pattern, MAX_TOTAL_SIZE)
    except TooLargePattern:
        return MAX_TOTAL_SIZE


class EngineRows(NamedTuple):
    """Rows of one statement. Several requests share these rows, so do not change them.

    is_stored: whether they come from stored outcomes. direct_reason: why they come from events
    instead; None for stored rows, and for statements that always read events. is_fresh: False if
    the replicas that were read may have lacked rows.
    """

    names: Sequence[str]
    rows: Sequence[Sequence[Any]]
    computed_at_ms: int
    is_stored: bool = False
    direct_reason: DirectReason | None = None
    is_fresh: bool = True


class Engine:
    """Runs statements within limits of time and memory. Methods block.

    Raises Unavailable if the engine stops a statement or does not respond.
    """

    def __init__(self, warehouse: Warehouse, settings: Settings, clock: Clock) -> None:
        self._warehouse, self._settings, self._clock = warehouse, settings, clock
        self._folds = SharedFolds(warehouse)

    def run(self, statement: Statement) -> EngineRows:
        with self.explain_errors():
            names, rows = self._folds.query(statement, self._settings_of(statement))
        return EngineRows(names, rows, self._clock())

    @contextmanager
    def stream(self, statement: Statement) -> Iterator[Iterator[list[dict[str, Any]]]]:
        """Yield rows by column name, in blocks. Occupies a connection until the context ends."""
        with (
            self.explain_errors(),
            self._warehouse.stream_blocks(
                statement.sql, statement.parameters, self._settings_of(statement)
            ) as blocks,
        ):
            yield ([dict(zip(names, row, strict=True)) for row in rows] for names, rows in blocks)

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Turn `QueryFailed` into an error that the caller can act on."""
        try:
            yield
        except QueryFailed as error:
            raise self._explain(error) from error

    def deadline(self) -> Callable[[], None]:
        """Return a function that checks whether work in Python exceeds a statement's time limit.

        The time starts now. The function raises `Stopped` if the request was stopped, and
        `Unavailable` when the time is up.
        """
        work, until_s = current_work(), monotonic() + self._limits()["max_execution_time"]

        def check() -> None:
            if work is not None:
                work.check()
            if monotonic() > until_s:
                raise self._timeout()

        return check

    def _timeout(self) -> Unavailable:
        limit_s = self._limits()["max_execution_time"]
        return Unavailable(
            f"The funnel took longer than {limit_s:g} seconds, the limit "
            f"queryTimeoutSeconds. {_SUGGESTION}",
            code="query_timeout",
        )

    def _explain(self, error: QueryFailed) -> Exception:
        """Return the error for the caller, with advice if the query exceeded a limit."""
        limits = self._limits()
        if error.code == TIMEOUT_EXCEEDED:
            return self._timeout()
        if error.code == MEMORY_LIMIT_EXCEEDED:
            return Unavailable(
                f"The funnel needed more than {limits['max_memory_usage']:,} bytes of memory, the "
                f"limit queryMemoryBytes. {_SUGGESTION}",
                code="query_too_large",
            )
        return explain_failure(error)

    def _settings_of(self, statement: Statement) -> Mapping[str, Any]:
        return {**settings_of(statement), **self._limits()}

    def _limits(self) -> Mapping[str, Any]:
        """Return the workspace's limits if the request has any, otherwise the operator's."""
        work = current_work()
        operator_limits = {
            "max_execution_time": self._settings.query_timeout_s,
            "max_memory_usage": self._settings.query_memory_bytes,
        }
        return operator_limits if work is None else {**operator_limits, **work.limits}
