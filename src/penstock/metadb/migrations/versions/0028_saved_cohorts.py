"""Add saved cohorts and their visitors.

Revision ID: 0028
Revises: 0027
"""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "saved_cohorts",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("workspace_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False, comment="list or rule"),
        sa.Column(
            "funnel_id", sa.Text, nullable=False, comment="the funnel may have been deleted since"
        ),
        sa.Column("parameters", sa.JSON, nullable=False),
        sa.Column("visitors", sa.Integer, comment="number of visitors of a list; unset for a rule"),
        sa.Column(
            "is_complete", sa.Boolean, nullable=False, comment="false while a list is being saved"
        ),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_saved_cohorts_workspace_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_saved_cohorts")),
        sa.UniqueConstraint(
            "workspace_id", "name", name=op.f("uq_saved_cohorts_workspace_id_name")
        ),
    )
    op.create_index(
        "ix_saved_cohorts_workspace_id_created_at", "saved_cohorts", ["workspace_id", "created_at"]
    )
    op.create_table(
        "cohort_visitors",
        sa.Column("cohort_id", sa.Text, nullable=False),
        sa.Column("scope_id", sa.Text, nullable=False),
        sa.Column(
            "visitor_id", sa.Text, nullable=False, comment="canonical when the list was saved"
        ),
        sa.Column(
            "visitor_key",
            sa.BigInteger,
            nullable=False,
            comment="key in the event store, an unsigned number, stored as a signed one",
        ),
        sa.ForeignKeyConstraint(
            ["cohort_id"],
            ["saved_cohorts.id"],
            name=op.f("fk_cohort_visitors_cohort_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "cohort_id", "scope_id", "visitor_id", name=op.f("pk_cohort_visitors")
        ),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_cohort_visitors_scope_id_visitor_id", "cohort_visitors", ["scope_id", "visitor_id"]
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
