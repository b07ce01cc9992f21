"""`penstock migrate`: upgrade both stores to this version without serving."""

from penstock.cli.logs import configure_logs
from penstock.cli.options import Data, read_settings, warn_of_unknown_settings
from penstock.cli.stores import migrated_stores


def migrate(data: Data = None) -> None:
    """Create or upgrade the tables of both stores, then exit. `serve` does so when it starts."""
    settings = read_settings(data=data)
    configure_logs(settings.log_level)
    warn_of_unknown_settings(settings)
    with migrated_stores(settings) as (stores, versions):
        stores.close()
    print(
        f"Both stores are up to date: metadata database {versions.database}, "
        f"event store {versions.warehouse:04}."
    )
