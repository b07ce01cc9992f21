"""Events that clients dropped before they could be sent.

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "event_counts",
        sa.Column(
            "lost_on_devices",
            sa.BigInteger(),
            nullable=False,
            server_default="0",
            comment="events that clients dropped before they could be sent",
        ),
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
