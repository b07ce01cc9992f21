"""The schema versions of both stores that this program knows, oldest first."""

from pathlib import Path

from penstock.metadb.migrations import versions
from penstock.warehouse.migrations import migrations

DATABASE_VERSIONS = sorted(
    path.name[:4] for path in Path(versions.__file__).parent.glob("[0-9]*.py")
)
WAREHOUSE_VERSIONS = [migration.version for migration in migrations()]
UP_TO_DATE = (
    f"Both stores are up to date: metadata database {DATABASE_VERSIONS[-1]}, "
    f"event store {WAREHOUSE_VERSIONS[-1]:04}.\n"
)
"""The output of `penstock migrate`."""
