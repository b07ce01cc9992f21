"""How much disk both stores use."""

from penstock.base.errors import StoreUnavailable
from penstock.health.model import TableSize
from penstock.metadb.database import Database
from penstock.warehouse.client import QueryFailed, Warehouse
from penstock.warehouse.queries import load


class StoreSizes:
    """Sizes in bytes, from the stores themselves."""

    def __init__(self, database: Database, warehouse: Warehouse) -> None:
        self._database, self._warehouse = database, warehouse

    def read(self) -> list[TableSize]:
        """The metadata database, then each table of the event store, the largest first. Blocks.

        A store that does not answer is left out.
        """
        sizes = list[TableSize]()
        try:
            sizes.append(TableSize("metadata database", None, self._database.size()))
            rows = self._warehouse.query(load("penstock.warehouse", "sizes"))[1]
            sizes += [TableSize(*row) for row in rows]
        except (StoreUnavailable, QueryFailed):
            pass
        return sizes

    def by_name(self) -> dict[str, float]:
        """Bytes by table."""
        return {size.name: float(size.bytes) for size in self.read()}
