"""Migrations: released files are frozen, and what they build is what the code expects."""

from hashlib import sha256
from importlib.resources import files

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from penstock.metadb.database import Database
from penstock.metadb.tables import metadata
from penstock.stores import Stores, migrate
from penstock.warehouse.migrations import migrations

pytestmark = pytest.mark.every_database

RELEASED = {
    "penstock.metadb.migrations.versions": {
        "0001_initial.py": "72aedbc45dc3f787bb430d2054a0d9ed964879b13ee752ae0ef2a85d28db51f5",
    },
    "penstock.warehouse.migrations": {
        "0001_initial.sql": "509f257378de6443b1b68afbc2fcf916cb34892a0338d0eae4325e86ad8cf452",
    },
}
"""SHA-256 of every migration that a release contains. A change needs a new migration instead."""


def test_released_migrations_never_change() -> None:
    for package, hashes in RELEASED.items():
        for name, digest in hashes.items():
            content = files(package).joinpath(name).read_bytes()
            assert sha256(content).hexdigest() == digest, f"{package}: {name} was released"


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
