"""Store webhooks, what they have said about units, and the messages that wait.

Revision ID: 0044
Revises: 0043
"""

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("workspace_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("funnel_id", sa.Text(), nullable=False),
        sa.Column("website_id", sa.Text(), nullable=True, comment="unset: all websites"),
        sa.Column("events", sa.JSON(), nullable=False, comment="types of its messages"),
        sa.Column(
            "expiring_before_seconds", sa.Integer(), nullable=True, comment="before the window ends"
        ),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("paused_at", sa.BigInteger(), nullable=True),
        sa.Column(
            "starts_at", sa.BigInteger(), nullable=False, comment="earlier outcomes are not sent"
        ),
        sa.Column(
            "position",
            sa.Text(),
            nullable=False,
            comment="JSON: up to where stored outcomes were read",
        ),
        sa.Column("problem", sa.Text(), nullable=True, comment="why no messages are made"),
        sa.Column(
            "failures",
            sa.Integer(),
            nullable=False,
            comment="failed deliveries since the last that succeeded",
        ),
        sa.Column("failing_since", sa.BigInteger(), nullable=True),
        sa.Column("next_try_at", sa.BigInteger(), nullable=False),
        sa.Column(
            "batch",
            sa.Integer(),
            nullable=False,
            comment="messages of the delivery that was begun; 0: none",
        ),
        sa.Column(
            "lease",
            sa.Text(),
            nullable=False,
            comment="whose deliveries these are until leased_until",
        ),
        sa.Column("leased_until", sa.BigInteger(), nullable=False),
        sa.Column("took", sa.Integer(), nullable=False, comment="milliseconds of the last delivery"),
        sa.ForeignKeyConstraint(
            ["funnel_id"], ["funnels.id"], name=op.f("fk_webhooks_funnel_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_webhooks_workspace_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
    )
    op.create_index("ix_webhooks_funnel_id", "webhooks", ["funnel_id"])
    op.create_index(
        "ix_webhooks_workspace_id_created_at", "webhooks", ["workspace_id", "created_at"]
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("webhook_id", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False, comment="ID of the request"),
        sa.Column("messages", sa.Integer(), nullable=False),
        sa.Column(
            "status", sa.Integer(), nullable=True, comment="of the response; unset: there was none"
        ),
        sa.Column(
            "text",
            sa.Text(),
            nullable=False,
            comment="start of the response, or why there was none",
        ),
        sa.Column("took", sa.Integer(), nullable=False, comment="milliseconds"),
        sa.ForeignKeyConstraint(
            ["webhook_id"],
            ["webhooks.id"],
            name=op.f("fk_webhook_deliveries_webhook_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_webhook_deliveries")),
    )
    op.create_index(
        "ix_webhook_deliveries_webhook_id_number", "webhook_deliveries", ["webhook_id", "number"]
    )
    op.create_table(
        "webhook_messages",
        sa.Column(
            "number",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            nullable=False,
            comment="order of the deliveries",
        ),
        sa.Column("webhook_id", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False, comment="the same for the same outcome"),
        sa.Column("scope_id", sa.Text(), nullable=True, comment="of the visitor; unset: unknown"),
        sa.Column("visitor_id", sa.Text(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False, comment="JSON"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["webhook_id"],
            ["webhooks.id"],
            name=op.f("fk_webhook_messages_webhook_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_webhook_messages")),
    )
    op.create_index(
        "ix_webhook_messages_scope_id_visitor_id", "webhook_messages", ["scope_id", "visitor_id"]
    )
    op.create_index(
        "ix_webhook_messages_webhook_id_number", "webhook_messages", ["webhook_id", "number"]
    )
    op.create_table(
        "webhook_secrets",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("webhook_id", sa.Text(), nullable=False),
        sa.Column(
            "secret",
            sa.Text(),
            nullable=False,
            comment="encrypted: signatures are computed with it",
        ),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column(
            "valid_until", sa.BigInteger(), nullable=True, comment="set once another took its place"
        ),
        sa.ForeignKeyConstraint(
            ["webhook_id"],
            ["webhooks.id"],
            name=op.f("fk_webhook_secrets_webhook_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_secrets")),
    )
    op.create_index("ix_webhook_secrets_webhook_id", "webhook_secrets", ["webhook_id"])
    op.create_table(
        "webhook_units",
        sa.Column("webhook_id", sa.Text(), nullable=False),
        sa.Column(
            "unit", sa.BigInteger(), autoincrement=False, nullable=False, comment="key, as signed"
        ),
        sa.Column(
            "facts",
            sa.Text(),
            nullable=False,
            comment="JSON: the time of each outcome that messages were made of",
        ),
        sa.Column("last_at", sa.BigInteger(), nullable=False, comment="of the newest of them"),
        sa.ForeignKeyConstraint(
            ["webhook_id"],
            ["webhooks.id"],
            name=op.f("fk_webhook_units_webhook_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("webhook_id", "unit", name=op.f("pk_webhook_units")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_webhook_units_webhook_id_last_at", "webhook_units", ["webhook_id", "last_at"]
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
