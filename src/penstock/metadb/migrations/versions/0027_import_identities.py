"""Count the lines of imports that link visitors to users.

Revision ID: 0027
Revises: 0026
"""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name, comment in (
        ("identify_lines", "lines that link visitors to a user, without an event"),
        ("ignored_lines", "lines with nothing that Penstock stores"),
        ("identity_conflicts", "lines whose visitor belongs to another user"),
    ):
        op.add_column(
            "imports",
            sa.Column(name, sa.BigInteger, nullable=False, server_default="0", comment=comment),
        )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
