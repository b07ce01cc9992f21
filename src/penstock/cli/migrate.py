"""`penstock migrate`: bring both stores to this version, without serving."""

from penstock.cli.options import Data, read_settings
from penstock.cli.stores import opened


def migrate(data: Data = None) -> None:
    """Create or upgrade the tables of both stores, then exit. `serve` does the same when it starts."""
    with opened(read_settings(data=data)) as services:
        services.warehouse.close()
        services.database.close()
    print("Both stores are at this version.")
