"""Add saved mappings of tables.

Revision ID: 0035
Revises: 0034
"""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "import_mappings",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("workspace_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("mapping", sa.JSON, nullable=False),
        sa.Column(
            "columns_sha256", sa.Text, nullable=False, comment="of the sorted names of its columns"
        ),
        sa.Column(
            "revision", sa.Integer, nullable=False, comment="from 1; rises with each change"
        ),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_import_mappings_workspace_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_import_mappings")),
        sa.UniqueConstraint(
            "workspace_id", "name", name=op.f("uq_import_mappings_workspace_id_name")
        ),
    )
    op.create_index(
        "ix_import_mappings_workspace_id_columns_sha256",
        "import_mappings",
        ["workspace_id", "columns_sha256"],
    )
    op.create_index(
        "ix_import_mappings_workspace_id_created_at",
        "import_mappings",
        ["workspace_id", "created_at"],
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
