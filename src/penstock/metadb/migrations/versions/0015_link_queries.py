"""Links can pass the query of a visit on, and count clicks over their quota.

Revision ID: 0015
Revises: 0014
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "links",
        sa.Column(
            "pass_query",
            sa.Boolean(),
            nullable=False,
            server_default=sa.false(),
            comment="whether the fallback URL gets the query of the visit",
        ),
    )
    op.add_column(
        "links",
        sa.Column(
            "unstored_clicks",
            sa.BigInteger(),
            nullable=False,
            server_default="0",
            comment="clicks over the quota, which are not stored",
        ),
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
