"""Remember who sent an import, and count the changes of its mapping.

Revision ID: 0033
Revises: 0032
"""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "imports", sa.Column("sent_by", sa.Text, comment="ID of the key or user; unset: not known")
    )
    op.add_column(
        "imports",
        sa.Column(
            "revision",
            sa.BigInteger,
            nullable=False,
            server_default="1",
            comment="rises with each change of the mapping",
        ),
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
