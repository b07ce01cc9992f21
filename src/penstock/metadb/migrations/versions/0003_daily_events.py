"""The events of each website in a day, for its quota.

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "daily_events",
        sa.Column("website_id", sa.Text(), nullable=False),
        sa.Column(
            "day",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="since 1970-01-01 UTC",
        ),
        sa.Column(
            "events",
            sa.BigInteger(),
            nullable=False,
            comment="new ones that count for the quota",
        ),
        sa.PrimaryKeyConstraint("website_id", "day", name=op.f("pk_daily_events")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
