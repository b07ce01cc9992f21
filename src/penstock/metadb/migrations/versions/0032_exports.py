"""Remember the exports of a workspace, so that a deletion can name them.

Revision ID: 0032
Revises: 0031
"""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "exports",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("workspace_id", sa.Text, sa.ForeignKey("workspaces.id"), nullable=False),
        sa.Column(
            "destination", sa.Text, nullable=False, comment="folder or bucket, named by the client"
        ),
        sa.Column("file_format", sa.Text, nullable=False),
        sa.Column(
            "exported_by", sa.Text, nullable=False, comment="e-mail address or name of the key"
        ),
        sa.Column("first_day", sa.Text, comment="first day of events that it read, in UTC"),
        sa.Column("last_day", sa.Text),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("finished_at", sa.BigInteger),
    )
    op.create_index("ix_exports_workspace_id_started_at", "exports", ["workspace_id", "started_at"])
    op.create_index(
        "ix_exports_workspace_id_destination_started_at",
        "exports",
        ["workspace_id", "destination", "started_at"],
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
