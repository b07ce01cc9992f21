"""Add shared reports.

Revision ID: 0043
Revises: 0042
"""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "shares",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("workspace_id", sa.Text, nullable=False),
        sa.Column("funnel_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column(
            "token_hash", sa.LargeBinary, nullable=False, comment="SHA-256 of the token"
        ),
        sa.Column("parameters", sa.JSON, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column(
            "created_by",
            sa.Text,
            nullable=False,
            comment="e-mail address of the member, or name of the key",
        ),
        sa.Column("expires_at", sa.BigInteger, comment="unset: never"),
        sa.Column("opens", sa.BigInteger, nullable=False, comment="how often it was opened"),
        sa.Column("last_opened_at", sa.BigInteger),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_shares_workspace_id")
        ),
        sa.ForeignKeyConstraint(
            ["funnel_id"], ["funnels.id"], name=op.f("fk_shares_funnel_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_shares")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_shares_token_hash")),
    )
    op.create_index("ix_shares_workspace_id_created_at", "shares", ["workspace_id", "created_at"])
    op.create_index("ix_shares_funnel_id_created_at", "shares", ["funnel_id", "created_at"])


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
