"""The engine as answers about funnels ask it: within limits, and with a word on what it stopped."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from penstock.base.clock import Clock
from penstock.base.errors import Unavailable
from penstock.funnels.results.evaluation import ENGINE_SETTINGS
from penstock.funnels.statements.query import Statement
from penstock.settings import Settings
from penstock.warehouse.client import MEMORY_LIMIT_EXCEEDED, TIMEOUT_EXCEEDED, QueryFailed, Warehouse, explained
from penstock.warehouse.work import current_work

_WAY_OUT = "Ask for a shorter period or one website, or raise the limit in the workspace's settings."


class Rows(NamedTuple):
    """What a statement answered. Shared by requests: to be read only."""

    names: Sequence[str]
    rows: Sequence[Sequence[Any]]
    computed_at_ms: int


class Engine:
    """Its methods block. What the engine stops or cannot answer is `Unavailable`."""

    def __init__(self, warehouse: Warehouse, settings: Settings, clock: Clock) -> None:
        self._warehouse, self._settings, self._clock = warehouse, settings, clock

    def rows(self, statement: Statement) -> Rows:
        with self.explaining():
            names, rows = self._warehouse.query(statement.sql, statement.parameters, {**ENGINE_SETTINGS, **self._limits()})
        return Rows(names, rows, self._clock())

    @contextmanager
    def blocks(self, statement: Statement) -> Iterator[Iterator[list[dict[str, Any]]]]:
        """The rows of a statement in blocks, for answers that are too long to hold. A connection is busy until the context ends."""
        settings = {**ENGINE_SETTINGS, **self._limits()}
        with self.explaining(), self._warehouse.blocks(statement.sql, statement.parameters, settings) as blocks:
            yield ([dict(zip(names, row, strict=True)) for row in rows] for names, rows in blocks)

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Within it, a query that failed is told in words that help who asked."""
        try:
            yield
        except QueryFailed as error:
            raise self._explained(error) from error

    def _explained(self, error: QueryFailed) -> Exception:
        """What a caller can do about a query that the engine stopped; any other failure is ours."""
        limits = self._limits()
        seconds, memory = f"{limits['max_execution_time']:g} seconds", f"{limits['max_memory_usage']:,} bytes of memory"
        if error.code == TIMEOUT_EXCEEDED:
            return Unavailable(f"The funnel took longer than {seconds}, the queryTimeoutSeconds in force. {_WAY_OUT}", code="query_timeout")
        if error.code == MEMORY_LIMIT_EXCEEDED:
            return Unavailable(f"The funnel needed more than {memory}, the queryMemoryBytes in force. {_WAY_OUT}", code="query_too_large")
        return explained(error)

    def _limits(self) -> Mapping[str, Any]:
        """Of the workspace, where the request has some; else the operator's."""
        work = current_work()
        operators = {"max_execution_time": self._settings.query_timeout_s, "max_memory_usage": self._settings.query_memory_bytes}
        return operators if work is None else {**operators, **work.limits}
