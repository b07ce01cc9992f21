"""Store what each import stated, so that it can be undone.

Imports that began before this migration cannot be undone.

Revision ID: 0040
Revises: 0039
"""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "imports",
        sa.Column(
            "is_undoable",
            sa.Boolean,
            nullable=False,
            server_default=sa.false(),
            comment="what it stored has its ID",
        ),
    )
    op.add_column(
        "dedupe_keys", sa.Column("import_id", sa.Text, comment="the import that stored the event")
    )
    op.add_column(
        "deletions", sa.Column("import_id", sa.Text, comment="of an undone import: its ID")
    )
    op.create_index("ix_deletions_import_id", "deletions", ["import_id"])
    op.create_table(
        "import_duplicates",
        sa.Column("import_id", sa.Text, nullable=False),
        sa.Column("other_id", sa.Text, nullable=False, comment="the later import"),
        sa.Column(
            "lines", sa.BigInteger, nullable=False, comment="of the later import, not stored again"
        ),
        sa.ForeignKeyConstraint(
            ["import_id"],
            ["imports.id"],
            name=op.f("fk_import_duplicates_import_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["other_id"],
            ["imports.id"],
            name=op.f("fk_import_duplicates_other_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("import_id", "other_id", name=op.f("pk_import_duplicates")),
    )
    op.create_index("ix_import_duplicates_other_id", "import_duplicates", ["other_id"])
    op.create_table(
        "import_identities",
        sa.Column("import_id", sa.Text, nullable=False),
        sa.Column("scope_id", sa.Text, nullable=False),
        sa.Column("visitor_id", sa.Text, nullable=False, comment="empty: only the user"),
        sa.Column("user_id", sa.Text, nullable=False, comment="empty: only the visitor"),
        sa.PrimaryKeyConstraint(
            "import_id", "scope_id", "visitor_id", "user_id", name=op.f("pk_import_identities")
        ),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_import_identities_scope_id_visitor_id_user_id",
        "import_identities",
        ["scope_id", "visitor_id", "user_id"],
    )
    op.create_table(
        "import_traits",
        sa.Column("import_id", sa.Text, nullable=False),
        sa.Column("scope_id", sa.Text, nullable=False),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column(
            "statements", sa.JSON, nullable=False, comment="what it stated about each trait"
        ),
        sa.PrimaryKeyConstraint(
            "import_id", "scope_id", "user_id", name=op.f("pk_import_traits")
        ),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_import_traits_scope_id_user_id", "import_traits", ["scope_id", "user_id"]
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
