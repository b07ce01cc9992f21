"""Retention of each kind of event of a website, and counts of what a deletion removed.

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "websites",
        sa.Column("retention_days", sa.JSON(), comment="days by kind of event; unset: all are kept"),
    )
    op.add_column(
        "deletions", sa.Column("kind", sa.Text(), comment="of retention: the kind of event")
    )
    if op.get_bind().dialect.name == "postgresql":
        comment = "visitor, user, span or retention"
        op.execute(f"COMMENT ON COLUMN deletions.target IS '{comment}'")
    op.add_column(
        "deletions", sa.Column("removed", sa.JSON(), comment="counts by store and kind of data")
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
