"""Trust of identity links.

Revision ID: 0008
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "visitors",
        sa.Column(
            "trust",
            sa.Integer(),
            comment="of the claim that gave it this user; unset: as a backend's",
        ),
    )
    op.add_column(
        "user_links",
        sa.Column(
            "trust", sa.Integer(), comment="of the claim that linked them; unset: as a backend's"
        ),
    )
    op.add_column(
        "user_links",
        sa.Column("traits_trust", sa.Integer(), comment="of that call; unset: as a backend's"),
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
