"""Dismissed import gaps, texts of rejected lines, setup tokens that every node accepts, plainer names.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Plain SQL: both databases rename in place, while Alembic would copy the whole table on SQLite.
    op.execute("ALTER TABLE imports RENAME COLUMN reach_from TO affected_from")
    op.execute("ALTER TABLE imports RENAME COLUMN reach_to TO affected_to")
    op.execute("ALTER TABLE spool_files RENAME TO click_buffer_files")
    op.add_column(
        "imports",
        sa.Column("gap_dismissed_at", sa.BigInteger(), comment="an owner judged the gap harmless"),
    )
    op.add_column(
        "imports", sa.Column("gap_dismissed_by", sa.Text(), comment="ID of the user who did")
    )
    op.add_column(
        "import_rejects",
        sa.Column("line_text", sa.Text(), comment="beginning of the line as sent, redacted"),
    )
    op.create_table(
        "setup_tokens",
        sa.Column("token_hash", sa.LargeBinary(), nullable=False, comment="SHA-256 of the token"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_setup_tokens")),
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
