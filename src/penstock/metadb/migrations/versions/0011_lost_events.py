"""Events that clients dropped, by day.

What was reported before is in the counts of each website only: its days are not known.

Revision ID: 0011
Revises: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lost_events",
        sa.Column("website_id", sa.Text(), nullable=False),
        sa.Column(
            "day",
            sa.Integer(),
            autoincrement=False,
            nullable=False,
            comment="when clients said so, since 1970-01-01 UTC",
        ),
        sa.Column(
            "events",
            sa.BigInteger(),
            nullable=False,
            comment="events that clients dropped before they could be sent",
        ),
        sa.PrimaryKeyConstraint("website_id", "day", name=op.f("pk_lost_events")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
