"""Let people subscribe to a weekly digest.

Revision ID: 0046
Revises: 0045
"""

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "digests",
        sa.Column("workspace_id", sa.Text, nullable=False),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("weekday", sa.Integer, nullable=False, comment="1 for Monday to 7 for Sunday"),
        sa.Column("hour", sa.Integer, nullable=False, comment="0 to 23, in the time zone"),
        sa.Column("timezone", sa.Text, nullable=False),
        sa.Column("funnel_ids", sa.JSON, comment="unset: all funnels of the workspace"),
        sa.Column("slot_at", sa.BigInteger, nullable=False, comment="time of the next digest"),
        sa.Column(
            "due_at",
            sa.BigInteger,
            nullable=False,
            comment="when a node works on it: later than its time during an attempt",
        ),
        sa.Column("sent_at", sa.BigInteger, comment="when the last digest was sent"),
        sa.ForeignKeyConstraint(
            ["workspace_id", "user_id"],
            ["memberships.workspace_id", "memberships.user_id"],
            name=op.f("fk_digests_workspace_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("workspace_id", "user_id", name=op.f("pk_digests")),
    )
    op.create_index("ix_digests_due_at", "digests", ["due_at"])


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
