"""Runs statements whose fold the shards of a cluster share, or else runs the whole statement."""

from collections.abc import Mapping
from math import ceil, inf
from secrets import randbits
from time import monotonic, time
from typing import Any

import structlog

from penstock.base.errors import StoreUnavailable
from penstock.funnels.statements.query import SharedFold, Statement
from penstock.warehouse.client import Warehouse
from penstock.warehouse.connections import Result
from penstock.warehouse.errors import (
    ABORTED,
    MEMORY_LIMIT_EXCEEDED,
    QUERY_WAS_CANCELLED,
    TIMEOUT_EXCEEDED,
    QueryFailed,
)

log = structlog.get_logger()

_FINAL = (TIMEOUT_EXCEEDED, ABORTED, MEMORY_LIMIT_EXCEEDED, QUERY_WAS_CANCELLED)
"""Errors after which the whole statement would fail too."""
_PAUSE_S = 60.0
"""After a failure, whole statements run for this time. Replicas that have returned need it until
all servers choose the same ones.
"""
_SPARE_S = 60
"""For how long the events of a shared fold are kept after the time limit of its query."""
_LONGEST_S = 3600


class SharedFolds:
    """Runs statements. Methods block, and raise the same errors as `Warehouse.query`."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._paused_until_s = -inf

    @property
    def is_sharing(self) -> bool:
        """Whether no shared fold has failed in the last minute."""
        return monotonic() >= self._paused_until_s

    def query(self, statement: Statement, settings: Mapping[str, Any]) -> Result:
        """Run a statement and return its column names and rows."""
        limits = _TimeLimit(settings)
        if statement.shared is not None and self.is_sharing:
            try:
                return self._run_shared(statement.shared, statement.parameters, limits)
            except (QueryFailed, StoreUnavailable) as error:
                if isinstance(error, QueryFailed) and error.code in _FINAL:
                    raise
                log.warning("fold_not_shared", error=str(error))
                self._paused_until_s = monotonic() + _PAUSE_S
        return self._warehouse.query(statement.sql, statement.parameters, limits.settings())

    def _run_shared(
        self, shared: SharedFold, parameters: Mapping[str, Any], limits: "_TimeLimit"
    ) -> Result:
        until_s = ceil(time() + limits.limit_s) + _SPARE_S
        exchange = (until_s << 32) + randbits(32)
        values = {**parameters, "exchange": exchange}
        try:
            self._warehouse.send_to_shards(shared.send, values, limits.settings())
            return self._warehouse.query(shared.fold, values, limits.settings())
        finally:
            self._warehouse.drop_exchange(exchange)


class _TimeLimit:
    """The time limit of several statements together. limit_s: seconds, which start now."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self.limit_s = float(settings.get("max_execution_time") or _LONGEST_S)
        self._until_s = monotonic() + self.limit_s

    def settings(self) -> dict[str, Any]:
        """Return the settings of the next statement, with the time that is left."""
        left_s = max(self._until_s - monotonic(), 0.1)
        return {**self._settings, "max_execution_time": left_s}
