"""`penstock migrate`: upgrade both stores to this version without serving."""

from penstock.cli.configuration import start_command
from penstock.cli.options import Config, Data
from penstock.cli.stores import migrated_stores


def migrate(data: Data = None, config: Config = None) -> None:
    """Create or upgrade the tables of both stores, then exit. `serve` does so when it starts."""
    settings = start_command(config, data=data)
    with migrated_stores(settings) as (stores, versions):
        stores.close()
    print(
        f"Both stores are up to date: metadata database {versions.database}, "
        f"event store {versions.warehouse:04}."
    )
