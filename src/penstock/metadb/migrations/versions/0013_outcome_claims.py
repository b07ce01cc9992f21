"""Claims on stored outcomes, so that one node at a time changes their rows.

Revision ID: 0013
Revises: 0012
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "outcome_claims",
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column(
            "number",
            sa.BigInteger(),
            nullable=False,
            comment="of the last change that began; the mark that ends it has the same",
        ),
        sa.Column(
            "is_open", sa.Boolean(), nullable=False, comment="the change has not ended"
        ),
        sa.Column(
            "build", sa.Text(), nullable=False, comment="that the change makes; empty: it makes none"
        ),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column(
            "read_until",
            sa.BigInteger(),
            nullable=False,
            comment="rows know no event that occurs later",
        ),
        sa.Column(
            "dropped_until", sa.BigInteger(), nullable=False, comment="nobody builds it until then"
        ),
        sa.PrimaryKeyConstraint("outcome", name=op.f("pk_outcome_claims")),
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
