"""Let funnels be in folders.

Revision ID: 0026
Revises: 0025
"""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("funnels", sa.Column("folder", sa.Text))
    op.create_index("ix_funnels_workspace_id_folder", "funnels", ["workspace_id", "folder"])


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
