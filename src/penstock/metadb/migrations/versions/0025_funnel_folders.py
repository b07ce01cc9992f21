"""Let funnels be in folders.

Revision ID: 0025
Revises: 0024
"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("funnels", sa.Column("folder", sa.Text))
    op.create_index("ix_funnels_workspace_id_folder", "funnels", ["workspace_id", "folder"])


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
