"""Let a workspace choose what may leave its dashboard, and annotate its time axes.

Revision ID: 0042
Revises: 0041
"""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "workspaces",
        sa.Column(
            "shared_contents",
            sa.Text,
            nullable=False,
            server_default="figures",
            comment="what may leave the dashboard: figures or units",
        ),
    )
    op.add_column(
        "workspaces",
        sa.Column(
            "shared_properties",
            sa.JSON,
            nullable=False,
            server_default="[]",
            comment="properties whose values may leave the dashboard",
        ),
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
