"""Managed links can be edited: revisions, expiry, tags, archive.

Until now no field of a link could change, so every link, click and match has revision 1.

Revision ID: 0010
Revises: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_FIRST_REVISIONS = """
INSERT INTO link_revisions
    (link_id, number, at, name, destination_path, fallback_url, utm_source, utm_medium,
     utm_campaign)
SELECT id, 1, created_at, name, destination_path, fallback_url, utm_source, utm_medium,
       utm_campaign
FROM links
"""


def _revision_number(name: str, comment: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False, server_default="1", comment=comment)


def upgrade() -> None:
    for column in (
        sa.Column(
            "expires_at",
            sa.BigInteger(),
            comment="from then on it leads to expired_url; unset: never",
        ),
        sa.Column("expired_url", sa.Text(), comment="unset: an expired link is not found"),
        _revision_number("revision", "number of the newest row of link_revisions"),
        sa.Column(
            "is_archived",
            sa.Boolean(),
            nullable=False,
            server_default=sa.false(),
            comment="works, but lists leave it out",
        ),
    ):
        op.add_column("links", column)
    if op.get_bind().dialect.name == "postgresql":
        comment = "name, slug and tags in folded letter case, a line each"
        op.execute(f"COMMENT ON COLUMN links.search_text IS '{comment}'")
    op.create_table(
        "link_revisions",
        sa.Column("link_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False, comment="from 1"),
        sa.Column("at", sa.BigInteger(), nullable=False, comment="since when it holds"),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("destination_path", sa.Text(), nullable=False),
        sa.Column("fallback_url", sa.Text()),
        sa.Column("utm_source", sa.Text()),
        sa.Column("utm_medium", sa.Text()),
        sa.Column("utm_campaign", sa.Text()),
        sa.Column("expires_at", sa.BigInteger()),
        sa.Column("expired_url", sa.Text()),
        sa.ForeignKeyConstraint(["link_id"], ["links.id"], name=op.f("fk_link_revisions_link_id")),
        sa.PrimaryKeyConstraint("link_id", "number", name=op.f("pk_link_revisions")),
        sqlite_with_rowid=False,
    )
    op.execute(_FIRST_REVISIONS)
    op.create_table(
        "link_tags",
        sa.Column("link_id", sa.Text(), nullable=False),
        sa.Column("tag", sa.Text(), nullable=False, comment="in lower case"),
        sa.Column("workspace_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["link_id"], ["links.id"], name=op.f("fk_link_tags_link_id")),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_link_tags_workspace_id")
        ),
        sa.PrimaryKeyConstraint("link_id", "tag", name=op.f("pk_link_tags")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        op.f("ix_link_tags_workspace_id_tag_link_id"),
        "link_tags",
        ["workspace_id", "tag", "link_id"],
    )
    op.add_column("link_clicks", _revision_number("link_revision", "of the link as it was then"))
    op.add_column(
        "link_matches", _revision_number("link_revision", "of the link that the app was led by")
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
