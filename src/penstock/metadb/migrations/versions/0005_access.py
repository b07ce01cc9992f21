"""Trust of identity links, identity secrets, rights of API keys, the audit log.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "visitors",
        sa.Column(
            "trust",
            sa.Integer(),
            comment="of the claim that gave it this user; unset: as a backend's",
        ),
    )
    op.add_column(
        "user_links",
        sa.Column(
            "trust", sa.Integer(), comment="of the claim that linked them; unset: as a backend's"
        ),
    )
    op.add_column(
        "user_links",
        sa.Column("traits_trust", sa.Integer(), comment="of that call; unset: as a backend's"),
    )
    op.add_column(
        "websites",
        sa.Column(
            "requires_signed_identities",
            sa.Boolean(),
            nullable=False,
            server_default=sa.false(),
            comment="whether identify without a key needs a signature",
        ),
    )
    for column, kind, comment in (
        ("scopes", sa.Text(), "ingest, read, manage, separated by blanks; unset: all"),
        ("website_id", sa.Text(), "the only one that it is for; unset: all"),
        ("expires_at", sa.BigInteger(), "unset: never"),
        ("created_by", sa.Text(), "ID of the user who created it"),
        ("created_by_email", sa.Text(), "their e-mail address then"),
    ):
        op.add_column("api_keys", sa.Column(column, kind, comment=comment))
    op.create_index(
        op.f("ix_api_keys_workspace_id_created_by"), "api_keys", ["workspace_id", "created_by"]
    )
    if op.get_bind().dialect.name == "postgresql":  # SQLite stores no comments
        op.alter_column(
            "provider_secrets",
            "secret",
            existing_type=sa.Text(),
            existing_nullable=False,
            comment="encrypted: signatures are computed with it",
            existing_comment="in plain text: signatures are computed with it",
        )
    op.create_table(
        "identity_secrets",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("workspace_id", sa.Text(), nullable=False),
        sa.Column("website_id", sa.Text(), nullable=False),
        sa.Column(
            "secret",
            sa.Text(),
            nullable=False,
            comment="encrypted: signatures are computed with it",
        ),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("valid_until", sa.BigInteger(), comment="set once another took its place"),
        sa.ForeignKeyConstraint(
            ["website_id"], ["websites.id"], name=op.f("fk_identity_secrets_website_id")
        ),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_identity_secrets_workspace_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_identity_secrets")),
    )
    op.create_index(op.f("ix_identity_secrets_website_id"), "identity_secrets", ["website_id"])
    op.create_table(
        "audit_entries",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("workspace_id", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False, comment="the oldest go after a year"),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column(
            "actor", sa.Text(), nullable=False, comment="e-mail address or name of the key, then"
        ),
        sa.Column("actor_id", sa.Text(), nullable=False, comment="ID of the user or the key"),
        sa.Column(
            "target", sa.Text(), nullable=False, comment="what it concerned: an ID, and a name"
        ),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_audit_entries_workspace_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_entries")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_audit_entries_at"), "audit_entries", ["at"])
    op.create_index(
        op.f("ix_audit_entries_workspace_id_at"), "audit_entries", ["workspace_id", "at"]
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
