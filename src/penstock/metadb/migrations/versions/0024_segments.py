"""Add segments and the filters of internal traffic.

Revision ID: 0024
Revises: 0023
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "segments",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("workspace_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("filters", sa.JSON, nullable=False),
        sa.Column(
            "revision",
            sa.Integer,
            nullable=False,
            comment="from 1; rises with each change of filters",
        ),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_segments_workspace_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_segments")),
        sa.UniqueConstraint("workspace_id", "name", name=op.f("uq_segments_workspace_id_name")),
    )
    op.create_index("ix_segments_workspace_id_created_at", "segments", ["workspace_id", "created_at"])
    op.create_table(
        "internal_traffic",
        sa.Column("workspace_id", sa.Text, nullable=False),
        sa.Column(
            "filters", sa.JSON, nullable=False, comment="an entry that meets any is left out"
        ),
        sa.Column(
            "revision", sa.Integer, nullable=False, comment="from 1; rises with each change"
        ),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_internal_traffic_workspace_id")
        ),
        sa.PrimaryKeyConstraint("workspace_id", name=op.f("pk_internal_traffic")),
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
