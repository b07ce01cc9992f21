"""Counts of events, property keys of websites, events that could not be stored.

Revision ID: 0004
Revises: 0003
"""

from collections import Counter

import sqlalchemy as sa
from alembic import op
from msgspec import json

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    counts = op.create_table(
        "event_counts",
        sa.Column("website_id", sa.Text(), nullable=False),
        sa.Column(
            "received",
            sa.BigInteger(),
            nullable=False,
            comment="events answered: stored + duplicates + refused + quarantined + waiting",
        ),
        sa.Column("stored", sa.BigInteger(), nullable=False, comment="in the warehouse"),
        sa.Column("duplicates", sa.BigInteger(), nullable=False),
        sa.Column("refused", sa.BigInteger(), nullable=False, comment="by the intake"),
        sa.Column(
            "quarantined",
            sa.BigInteger(),
            nullable=False,
            comment="accepted, refused by the warehouse",
        ),
        sa.Column("waiting", sa.BigInteger(), nullable=False, comment="in the outbox"),
        sa.Column(
            "dropped",
            sa.BigInteger(),
            nullable=False,
            comment="refused or quarantined events that are no longer kept",
        ),
        sa.PrimaryKeyConstraint("website_id", name=op.f("pk_event_counts")),
    )
    op.create_table(
        "property_keys",
        sa.Column("website_id", sa.Text(), nullable=False),
        sa.Column("key_hash", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.PrimaryKeyConstraint("website_id", "key_hash", name=op.f("pk_property_keys")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "quarantine",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("workspace_id", sa.Text(), nullable=False),
        sa.Column(
            "website_id", sa.Text(), comment="unset: it names no website of the workspace"
        ),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False, comment="refused or unshippable"),
        sa.Column("origin", sa.Text(), nullable=False, comment="the route, or the warehouse table"),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False, comment="of the texts below"),
        sa.Column("errors", sa.JSON(), nullable=False),
        sa.Column("sender", sa.JSON(), nullable=False, comment="what the content was read with"),
        sa.Column(
            "content", sa.Text(), comment="the item as sent, or the row; unset: it cannot be kept"
        ),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_quarantine_workspace_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quarantine")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        op.f("ix_quarantine_workspace_id_website_id"), "quarantine", ["workspace_id", "website_id"]
    )
    op.add_column(
        "outbox", sa.Column("put_at", sa.BigInteger(), comment="unset: before this column existed")
    )
    _count_waiting(counts)


def _count_waiting(counts: sa.Table) -> None:
    """Events that wait since before the upgrade were received and are not stored yet."""
    waiting = Counter[str]()
    bundles = sa.text("SELECT lines FROM outbox WHERE target = 'events'")
    for (lines,) in op.get_bind().execute(bundles):
        waiting.update(json.decode(line)["website_id"] for line in lines.split("\n"))
    none = dict.fromkeys(("stored", "duplicates", "refused", "quarantined", "dropped"), 0)
    rows = [
        {"website_id": website_id, "received": number, "waiting": number, **none}
        for website_id, number in waiting.items()
    ]
    if rows:
        op.bulk_insert(counts, rows)


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
