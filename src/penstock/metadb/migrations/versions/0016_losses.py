"""The ledger of the rows that the event store should have, and losses of them.

The rows that are there already are counted at the next start: it expects what it finds then.

Revision ID: 0016
Revises: 0015
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_NEWEST_SHIPMENT = {
    "sqlite": "COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'shipments'), 0)",
    "postgresql": "(SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM shipments_id_seq)",
}


def upgrade() -> None:
    op.create_table(
        "event_ledger",
        sa.Column(
            "number",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="always 1: there is one row",
        ),
        sa.Column(
            "stored", sa.BigInteger(), nullable=False, comment="rows of events that were shipped"
        ),
        sa.Column(
            "removed",
            sa.BigInteger(),
            nullable=False,
            comment="rows of events that deletions removed, counted before they begin",
        ),
        sa.Column(
            "shipment", sa.BigInteger(), nullable=False, comment="the highest number of shipments"
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_event_ledger")),
    )
    newest = _NEWEST_SHIPMENT[op.get_bind().dialect.name]
    op.execute(
        "INSERT INTO event_ledger (number, stored, removed, shipment) "
        f"SELECT 1, 0, 0, {newest}"
    )
    op.create_table(
        "losses",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column(
            "found_at",
            sa.BigInteger(),
            nullable=False,
            comment="when events that were stored before were missing",
        ),
        sa.Column(
            "rows", sa.BigInteger(), nullable=False, comment="of events that are missing; 0: the metadata database lost its newest entries"
        ),
        sa.Column(
            "accepted_at", sa.BigInteger(), comment="unset: what the last comparison found"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_losses")),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
