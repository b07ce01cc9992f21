"""A copy of Penstock that is one release newer: it has one more migration of each store."""

import shutil
from pathlib import Path

from penstock.metadb.database import Database
from penstock.warehouse.migrations import migrations
from tests.source_tree import SOURCE

VERSION = f"{int(Database.known_versions()[-1]) + 1:04}"
_OF_DATABASE = f"""
import sqlalchemy as sa
from alembic import op

revision, down_revision = "{VERSION}", "{Database.known_versions()[-1]}"


def upgrade() -> None:
    op.add_column("outbox", sa.Column("release", sa.Text))
"""
_OF_WAREHOUSE = "ALTER TABLE events ADD COLUMN IF NOT EXISTS release String;\n"


def next_release(folder: Path) -> dict[str, str]:
    """Create the copy. Returns the variables with which a new interpreter runs it."""
    copy = shutil.copytree(SOURCE, folder / SOURCE.name, ignore=shutil.ignore_patterns("*.pyc"))
    (copy / f"metadb/migrations/versions/{VERSION}_next.py").write_text(_OF_DATABASE)
    number = migrations()[-1].version + 1
    (copy / f"warehouse/migrations/{number:04}_next.sql").write_text(_OF_WAREHOUSE)
    return {"PYTHONPATH": str(folder)}
