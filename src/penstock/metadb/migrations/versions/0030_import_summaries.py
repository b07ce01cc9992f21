"""Store what the dry run of an import shows.

Revision ID: 0030
Revises: 0029
"""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "import_summaries",
        sa.Column(
            "import_id",
            sa.Text,
            sa.ForeignKey("imports.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("summary", sa.JSON, nullable=False, comment="as the API returns it"),
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
