"""Give the destination of an export an identity that outlives its name.

Revision ID: 0034
Revises: 0033
"""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "exports",
        sa.Column(
            "destination_id",
            sa.Text,
            nullable=False,
            server_default="",
            comment="ID in the files; the name, where the client sent no ID",
        ),
    )
    op.execute("UPDATE exports SET destination_id = destination")
    op.drop_index("ix_exports_workspace_id_destination_started_at", "exports")
    op.create_index(
        "ix_exports_workspace_id_destination_id_started_at",
        "exports",
        ["workspace_id", "destination_id", "started_at"],
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
