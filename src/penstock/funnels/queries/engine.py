"""Step 6: the engine, with limits, and with errors that tell the caller what to do."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, NamedTuple

from penstock.base.clock import Clock
from penstock.base.errors import Unavailable
from penstock.funnels.queries.schema import DirectReason
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
    # Compiling a statement takes as long as several small reports and makes large ones 2 % quicker:
    # only what runs often is worth it.
    "min_count_to_compile_expression": 50,
    "min_count_to_compile_aggregate_expression": 50,
    "min_count_to_compile_sort_description": 50,
    # The columns of an event are wide: with the engine's 1 MB a block has an eighth of the rows
    # that it could have, and reading takes a third longer.
    "preferred_block_size_bytes": 16 * 1024**2,
    "prefer_column_name_to_alias": 1,  # totals keep the names of the columns that they add up
    "join_use_nulls": 0,
    "force_grouping_standard_compatibility": 1,
    # For every definition within the limits of `penstock.funnels.definitions.cost`, which bounds
    # the statement; the engine's own bounds are lower.
    "max_query_size": 4 * 1024**2,
    "max_ast_elements": 500_000,
    "max_expanded_ast_elements": 5_000_000,
    # Rewrites that find nothing in these statements; trying them takes half the time of a small
    # report.
    "optimize_and_compare_chain": 0,
    "optimize_syntax_fuse_functions": 0,
    "optimize_redundant_comparisons": 0,
    "optimize_extract_common_expressions": 0,
    # These look at every key of a grouping, and with it at all that lies below.
    "optimize_aggregators_of_group_by_keys": 0,
    "optimize_group_by_function_keys": 0,
    "optimize_injective_functions_in_group_by": 0,
    "optimize_redundant_functions_in_order_by": 0,
}

_SUGGESTION = "Use a shorter period or one website, or raise the limit in the workspace's settings."


class EngineRows(NamedTuple):
    """Rows of one statement. Several requests share them: do not change them.

    is_stored: whether stored outcomes were read instead of events. direct_reason: why not; None
    where they have no such rows.
    """

    names: Sequence[str]
    rows: Sequence[Sequence[Any]]
    computed_at_ms: int
    is_stored: bool = False
    direct_reason: DirectReason | None = None


class Engine:
    """Methods block. Unavailable when the engine stops a statement or cannot answer."""

    def __init__(self, warehouse: Warehouse, settings: Settings, clock: Clock) -> None:
        self._warehouse, self._settings, self._clock = warehouse, settings, clock

    def run(self, statement: Statement) -> EngineRows:
        with self.explaining():
            names, rows = self._warehouse.query(
                statement.sql, statement.parameters, self._settings_of(statement)
            )
        return EngineRows(names, rows, self._clock())

    @contextmanager
    def stream(self, statement: Statement) -> Iterator[Iterator[list[dict[str, Any]]]]:
        """Rows by column name, in blocks. Occupies a connection until the context ends."""
        with (
            self.explaining(),
            self._warehouse.stream_blocks(
                statement.sql, statement.parameters, self._settings_of(statement)
            ) as blocks,
        ):
            yield ([dict(zip(names, row, strict=True)) for row in rows] for names, rows in blocks)

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Turns `QueryFailed` into an error that the caller can act on."""
        try:
            yield
        except QueryFailed as error:
            raise self._explain_failure(error) from error

    def deadline(self) -> Callable[[], None]:
        """A check for work in Python, which has as much time from now on as a statement.

        It raises `Stopped`, or `Unavailable` when the time is up.
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

    def _explain_failure(self, error: QueryFailed) -> Exception:
        """What the caller can do about a stopped statement; any other failure is ours."""
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
        return {**ENGINE_SETTINGS, **statement.settings, **self._limits()}

    def _limits(self) -> Mapping[str, Any]:
        """The workspace's where the request has some, else the operator's."""
        work = current_work()
        operator_limits = {
            "max_execution_time": self._settings.query_timeout_s,
            "max_memory_usage": self._settings.query_memory_bytes,
        }
        return operator_limits if work is None else {**operator_limits, **work.limits}
