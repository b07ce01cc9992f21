"""Index merges by the absorbed visitor, and list releases that a worker finishes.

Revision ID: 0019
Revises: 0018
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "open_releases",
        sa.Column("scope_id", sa.Text, primary_key=True),
        sa.Column(
            "visitor_id",
            sa.Text,
            primary_key=True,
            comment="visitors that it has absorbed are on their own from now on, whatever they say",
        ),
        sa.Column("user_id", sa.Text, nullable=False, comment="whose claim released them"),
        sa.Column("is_deletion", sa.Boolean, nullable=False, comment="their rows are removed"),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_merges_scope_id_absorbed_id", "merges", ["scope_id", "absorbed_id"])
    op.create_index("ix_merges_scope_id_kept_id_id", "merges", ["scope_id", "kept_id", "id"])
    op.drop_index("ix_merges_scope_id_kept_id", "merges")


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
