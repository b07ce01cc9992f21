"""Store whether the sender of an import may send events with their source and time of receipt.

Revision ID: 0029
Revises: 0028
"""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "imports",
        sa.Column(
            "accepts_stored_events",
            sa.Boolean,
            nullable=False,
            server_default=sa.false(),
            comment="its sender had the permission manage",
        ),
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
