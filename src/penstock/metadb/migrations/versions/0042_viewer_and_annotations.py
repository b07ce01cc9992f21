"""Let a workspace have viewers and annotations, and choose what may leave its dashboard.

Revision ID: 0042
Revises: 0041
"""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "workspaces",
        sa.Column(
            "shared_contents",
            sa.Text,
            nullable=False,
            server_default="figures",
            comment="what may leave the dashboard: figures or units",
        ),
    )
    op.add_column(
        "workspaces",
        sa.Column(
            "shared_properties",
            sa.JSON,
            nullable=False,
            server_default="[]",
            comment="properties whose values may leave the dashboard",
        ),
    )
    if op.get_bind().dialect.name == "postgresql":  # SQLite stores no comments.
        for table in ("memberships", "invitations"):
            op.alter_column(
                table,
                "role",
                existing_type=sa.Text(),
                existing_nullable=False,
                comment="owner, member or viewer",
                existing_comment="owner or member",
            )
    op.create_table(
        "annotations",
        sa.Column("workspace_id", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False, comment="the client may choose it"),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False, comment="of a day: its start in UTC"),
        sa.Column("day", sa.Text, comment="a whole day, such as 2026-11-20"),
        sa.Column("funnel_id", sa.Text, comment="unset: reports of all funnels show it"),
        sa.Column("website_id", sa.Text, comment="unset: reports of all websites show it"),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_annotations_workspace_id")
        ),
        sa.ForeignKeyConstraint(
            ["funnel_id"],
            ["funnels.id"],
            name=op.f("fk_annotations_funnel_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["website_id"], ["websites.id"], name=op.f("fk_annotations_website_id")
        ),
        sa.PrimaryKeyConstraint("workspace_id", "id", name=op.f("pk_annotations")),
    )
    op.create_index("ix_annotations_workspace_id_at", "annotations", ["workspace_id", "at"])
    op.create_index("ix_annotations_funnel_id", "annotations", ["funnel_id"])


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
