"""Count the empty lines of imports.

Revision ID: 0020
Revises: 0019
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "imports",
        sa.Column(
            "empty_lines",
            sa.BigInteger,
            nullable=False,
            server_default="0",
            comment="skipped lines, among those read",
        ),
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
