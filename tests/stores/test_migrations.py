"""Migrations: released files are frozen, and what they build is what the code expects."""

from hashlib import sha256
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from penstock.metadb.database import Database
from penstock.metadb.tables import metadata
from penstock.stores import Stores, migrate
from penstock.warehouse.migrations import migrations
from tests.source_tree import SOURCE

pytestmark = pytest.mark.every_database

RELEASED = Path(__file__).parent / "released_migrations.sha256"
"""A line for every migration that a release contains. A change needs a new migration instead."""


def test_released_migrations_never_change() -> None:
    lines = RELEASED.read_text("utf-8").splitlines()
    assert len(lines) >= 32  # a release only adds lines
    for digest, name in map(str.split, lines):
        content = (SOURCE / name).read_bytes()
        assert sha256(content).hexdigest() == digest, f"{name} was released"


def test_a_change_of_the_event_store_comes_with_a_migration_of_the_metadata_database() -> None:
    """Nodes of the previous release only look for the latter before they write."""
    released = {line.split()[1] for line in RELEASED.read_text("utf-8").splitlines()}
    new = {
        store: [
            file
            for file in (SOURCE / store / "migrations").rglob("[0-9]*")
            if file.suffix in (".py", ".sql") and str(file.relative_to(SOURCE)) not in released
        ]
        for store in ("metadb", "warehouse")
    }
    assert new["metadb"] or not new["warehouse"]


def test_migrated_tables_are_those_of_the_code(database_url: str) -> None:
    database = Database(database_url)
    with database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    database.close()


def test_migrating_again_changes_nothing(database_url: str, warehouse) -> None:
    database = Database(database_url)
    first = migrate(Stores(database, warehouse))
    assert migrate(Stores(database, warehouse)) == first
    rows = warehouse.query("SELECT count() FROM schema_migrations")[1]
    assert rows == [(first.warehouse,)]
    database.close()


def test_every_statement_of_the_event_store_can_run_again(warehouse) -> None:
    for migration in migrations():
        for statement in migration.statements:
            warehouse.command(statement)
            warehouse.command(statement)


def test_migrations_are_numbered_without_gaps() -> None:
    numbers = [migration.version for migration in migrations()]
    assert numbers == list(range(1, len(numbers) + 1))
