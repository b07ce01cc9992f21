"""Opens both stores and migrates their schemas to this program's version."""

from pathlib import Path
from typing import NamedTuple

import structlog

from penstock.metadb.database import Database
from penstock.settings import Settings
from penstock.warehouse import migrations
from penstock.warehouse.client import Warehouse
from penstock.warehouse.cluster import Cluster

log = structlog.get_logger()


class Stores(NamedTuple):
    """Open connections to the metadata database and the event store."""

    database: Database
    warehouse: Warehouse

    def close(self) -> None:
        self.warehouse.close()
        self.database.close()


class SchemaVersions(NamedTuple):
    """The schema version of each store."""

    database: str
    warehouse: int


def open_database(settings: Settings) -> Database:
    """Connect to the metadata DB without migrating it."""
    return Database(
        settings.metadb_url, settings.limits.database_timeout_s, settings.database_connections
    )


def open_stores(settings: Settings) -> Stores:
    """Connect to both stores without migrating them. Creates missing folders."""
    settings.data.mkdir(parents=True, exist_ok=True)
    database = open_database(settings)
    if database.is_sqlite and database.url.database:
        Path(database.url.database).parent.mkdir(parents=True, exist_ok=True)
    return Stores(database, open_warehouse(settings))


def open_warehouse(settings: Settings) -> Warehouse:
    """Connect to the event store without migrating it."""
    return Warehouse(
        data=settings.data,
        url=settings.warehouse_url,
        cluster=Cluster(settings.warehouse_cluster) if settings.warehouse_cluster else None,
        readers=settings.share(settings.queries_at_once),
        readers_per_owner=settings.share(settings.queries_per_workspace),
    )


def migrate(stores: Stores) -> SchemaVersions:
    """Upgrade both stores, one node at a time. Safe to repeat, even if the process was killed.

    Raises `NewerSchema` if a newer program has migrated one store; the other store may already be
    migrated by then.
    """
    with stores.database.migration_lock():
        is_new = stores.database.version() is None
        versions = SchemaVersions(stores.database.migrate(), migrations.migrate(stores.warehouse))
    if is_new:
        log.info("stores_created", database=versions.database, event_store=versions.warehouse)
    return versions
