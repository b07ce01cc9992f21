"""Disk use and growth of both stores."""

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress

from penstock.base.clock import Clock
from penstock.base.errors import StoreUnavailable
from penstock.base.worker import Worker
from penstock.health.model import StoreSize, TableSize
from penstock.metadb.database import Database
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import QueryFailed

_DATABASE, _EVENT_STORE = "metadata database", "event store"
_FIRST_AFTER_S = 2.0  # leaves time for other work at startup
_PERIOD_S = 3600.0
_MAX_SIZES = 25
"""Maximum number of remembered sizes. One is added per hour, so the oldest is a day old."""


class StoreSizes:
    """Sizes in bytes, as the stores report them. Methods block.

    Earlier sizes are kept in memory, so growth covers the time since this process started, up to a
    day.
    """

    def __init__(self, database: Database, warehouse: Warehouse, clock: Clock) -> None:
        self._database, self._warehouse, self._clock = database, warehouse, clock
        # Pairs of a time in ms and the bytes of each store that answered, oldest first.
        self._earlier = deque[tuple[int, Mapping[str, int]]](maxlen=_MAX_SIZES)
        self.worker = Worker(
            "store_sizes", self._remember, clock, period_s=_PERIOD_S, first_after_s=_FIRST_AFTER_S
        )

    def read(self) -> list[TableSize]:
        """Return the sizes of the metadata database and of each table of the event store, largest
        first.

        Omits stores that do not answer.
        """
        sizes = list[TableSize]()
        with suppress(StoreUnavailable):
            sizes.append(TableSize(_DATABASE, None, self._database.size()))
        with suppress(StoreUnavailable, QueryFailed):
            sizes += [TableSize(*row) for row in self._warehouse.table_sizes()]
        return sizes

    def bytes_by_name(self) -> dict[str, float]:
        """Return the bytes by table."""
        return {size.name: float(size.bytes) for size in self.read()}

    def stores(self, sizes: Sequence[TableSize]) -> list[StoreSize]:
        """Return the size and growth of each store. sizes: current sizes by table."""
        now_ms = self._clock()
        return [self._measure_growth(name, size, now_ms) for name, size in _by_store(sizes).items()]

    def _measure_growth(self, store: str, size: int, now_ms: int) -> StoreSize:
        for at_ms, earlier in list(self._earlier):
            if store in earlier:
                return StoreSize(store, size, size - earlier[store], (now_ms - at_ms) // 1000)
        return StoreSize(store, size, None, 0)

    def _remember(self) -> None:
        self._earlier.append((self._clock(), _by_store(self.read())))


def _by_store(sizes: Sequence[TableSize]) -> dict[str, int]:
    stores = dict[str, int]()
    for size in sizes:
        store = _DATABASE if size.name == _DATABASE else _EVENT_STORE
        stores[store] = stores.get(store, 0) + size.bytes
    return stores
