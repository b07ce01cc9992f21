"""Links can pass the query of a visit on to their fallback URL.

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


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
