"""Numbered migrations of the event store."""

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.resources import files
from typing import NamedTuple

import structlog

from penstock.base.schema_version import NewerSchema
from penstock.warehouse.client import Warehouse

log = structlog.get_logger()

_TABLE = """
CREATE TABLE IF NOT EXISTS schema_migrations
(
    version UInt32,
    name String,
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = MergeTree
ORDER BY version
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1"""


class Migration(NamedTuple):
    """A numbered migration. It is safe to run repeatedly.

    statements: SQL statements, which run in order.
    upgrade: Python code for changes that need more than statements.
    """

    version: int
    name: str
    statements: tuple[str, ...]
    upgrade: Callable[[Warehouse], None] | None = None


def migrations() -> list[Migration]:
    """Return all migrations of this release in order."""
    folder = files("penstock.warehouse.migrations")
    names = sorted(file.name for file in folder.iterdir() if file.name[:4].isdigit())
    return [_migration(name, folder.joinpath(name).read_text("utf-8")) for name in names]


def current_version(warehouse: Warehouse) -> int:
    """Return the number of the newest migration applied to the store; 0 if there is none."""
    warehouse.command(_TABLE)
    [(version,)] = warehouse.query("SELECT max(version) FROM schema_migrations")[1]
    return int(version)


def migrate(warehouse: Warehouse) -> int:
    """Bring the event store to the schema of this release, and return its version.

    It is safe to run again, even if the process was killed. The caller must keep other nodes away.

    Raises `NewerSchema` if a newer release has migrated the store.
    """
    version = current_version(warehouse)
    known = migrations()
    if version > known[-1].version:
        raise NewerSchema("event store", str(version), str(known[-1].version))
    for migration in known:
        if migration.version > version:
            if version:  # `penstock.stores` logs the creation of a new store in one line.
                log.info("event_store_migration", version=migration.version, name=migration.name)
            _apply(warehouse, migration)
    return known[-1].version


def _apply(warehouse: Warehouse, migration: Migration) -> None:
    for statement in migration.statements:
        warehouse.command(statement)
    if migration.upgrade is not None:
        migration.upgrade(warehouse)
    if warehouse.cluster is not None:
        for statement in warehouse.cluster.distributed_tables():
            warehouse.command(statement)
    warehouse.command(
        "INSERT INTO schema_migrations (version, name) VALUES ({version:UInt32}, {name:String})",
        {"version": migration.version, "name": migration.name},
    )


def _migration(file_name: str, text: str) -> Migration:
    stem, _, kind = file_name.rpartition(".")
    number, _, name = stem.partition("_")
    if kind == "sql":
        return Migration(int(number), name, tuple(_statements(text)))
    return Migration(int(number), name, (), import_module(f"{__name__}.{stem}").upgrade)


def _statements(text: str) -> Iterator[str]:
    for statement in text.split(";\n"):
        if statement.strip():
            yield statement
