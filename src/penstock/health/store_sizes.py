"""How much disk both stores use."""

from contextlib import suppress

from penstock.base.errors import StoreUnavailable
from penstock.health.model import TableSize
from penstock.metadb.database import Database
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import QueryFailed


class StoreSizes:
    """Sizes in bytes, from the stores themselves."""

    def __init__(self, database: Database, warehouse: Warehouse) -> None:
        self._database, self._warehouse = database, warehouse

    def read(self) -> list[TableSize]:
        """The metadata database, then each table of the event store, the largest first. Blocks.

        A store that does not answer is left out.
        """
        sizes = list[TableSize]()
        with suppress(StoreUnavailable):
            sizes.append(TableSize("metadata database", None, self._database.size()))
        with suppress(StoreUnavailable, QueryFailed):
            sizes += [TableSize(*row) for row in self._warehouse.table_sizes()]
        return sizes

    def by_name(self) -> dict[str, float]:
        """Bytes by table."""
        return {size.name: float(size.bytes) for size in self.read()}
