"""Offsets of devices whose clocks are wrong, so that all requests of a device are corrected alike.

Revision ID: 0018
Revises: 0017
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "device_clocks",
        sa.Column(
            "device",
            sa.LargeBinary(),
            nullable=False,
            comment="hash of (identity scope, visitor ID as sent)",
        ),
        sa.Column(
            "ahead_ms",
            sa.BigInteger(),
            nullable=False,
            comment="the device's clock minus the server's",
        ),
        sa.Column(
            "confirmed_at",
            sa.BigInteger(),
            nullable=False,
            comment="when a request last agreed; forgotten a day later",
        ),
        sa.PrimaryKeyConstraint("device", name=op.f("pk_device_clocks")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_device_clocks_confirmed_at"), "device_clocks", ["confirmed_at"])


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
