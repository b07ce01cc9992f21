"""Add alerts with their channels, findings, messages and deliveries.

Revision ID: 0045
Revises: 0044
"""

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "alerts",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("workspace_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("condition", sa.JSON, nullable=False, comment="as in the API"),
        sa.Column("quiet_hours", sa.JSON, comment="as in the API; unset: none"),
        sa.Column("is_paused", sa.Boolean, nullable=False),
        sa.Column("snoozed_until", sa.BigInteger, comment="messages wait until then"),
        sa.Column(
            "checked_from",
            sa.BigInteger,
            nullable=False,
            comment="periods that end earlier are not judged",
        ),
        sa.Column(
            "due_at",
            sa.BigInteger,
            nullable=False,
            comment="of the next check; its node moves it ahead meanwhile",
        ),
        sa.Column("verdict", sa.Text, nullable=False, comment="alarming, fine or undecided"),
        sa.Column("checked_at", sa.BigInteger),
        sa.Column("basis", sa.Text, comment="identifies the definition behind the findings"),
        sa.Column("problem", sa.Text, comment="why the last check failed; unset: it did not"),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_alerts_workspace_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alerts")),
        sa.UniqueConstraint("workspace_id", "name", name=op.f("uq_alerts_workspace_id_name")),
    )
    op.create_index("ix_alerts_due_at", "alerts", ["due_at"])
    op.create_index("ix_alerts_workspace_id_created_at", "alerts", ["workspace_id", "created_at"])
    op.create_table(
        "alert_channels",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("workspace_id", sa.Text, nullable=False),
        sa.Column("alert_id", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False, comment="email, webhook or chat"),
        sa.Column(
            "target",
            sa.Text,
            nullable=False,
            comment="ID of the user, URL of a webhook, or host of a chat",
        ),
        sa.Column(
            "secret", sa.Text, comment="encrypted: secret of a webhook, or URL of a chat"
        ),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_alert_channels_workspace_id")
        ),
        sa.ForeignKeyConstraint(
            ["alert_id"],
            ["alerts.id"],
            name=op.f("fk_alert_channels_alert_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_channels")),
    )
    op.create_index("ix_alert_channels_alert_id", "alert_channels", ["alert_id"])
    op.create_table(
        "alert_findings",
        sa.Column("alert_id", sa.Text, nullable=False),
        sa.Column("start_at", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("end_at", sa.BigInteger, nullable=False),
        sa.Column(
            "verdict",
            sa.Text,
            nullable=False,
            comment="alarming or fine; undecided after a correction",
        ),
        sa.Column(
            "figures",
            sa.JSON,
            nullable=False,
            comment="of the moment at which the verdict became final",
        ),
        sa.Column("found_at", sa.BigInteger, nullable=False),
        sa.Column(
            "message_id", sa.Text, comment="of the message about it; unset: none was needed"
        ),
        sa.ForeignKeyConstraint(
            ["alert_id"],
            ["alerts.id"],
            name=op.f("fk_alert_findings_alert_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("alert_id", "start_at", name=op.f("pk_alert_findings")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "alert_messages",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("workspace_id", sa.Text, nullable=False),
        sa.Column("alert_id", sa.Text, nullable=False),
        sa.Column(
            "kind", sa.Text, nullable=False, comment="alarm, recovery, correction or test"
        ),
        sa.Column(
            "message",
            sa.JSON,
            nullable=False,
            comment="subject, lines, link, figures, corrects, and properties that lines state",
        ),
        sa.Column(
            "report",
            sa.Text,
            nullable=False,
            comment="page that shows the figures, with all parameters",
        ),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_alert_messages_workspace_id")
        ),
        sa.ForeignKeyConstraint(
            ["alert_id"],
            ["alerts.id"],
            name=op.f("fk_alert_messages_alert_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_messages")),
    )
    op.create_index(
        "ix_alert_messages_alert_id_created_at", "alert_messages", ["alert_id", "created_at"]
    )
    op.create_table(
        "alert_deliveries",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("message_id", sa.Text, nullable=False),
        sa.Column("channel_id", sa.Text, nullable=False),
        sa.Column(
            "state", sa.Text, nullable=False, comment="waiting, sent, failed or cancelled"
        ),
        sa.Column(
            "due_at",
            sa.BigInteger,
            nullable=False,
            comment="of the next attempt; its node moves it ahead meanwhile",
        ),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("error", sa.Text, comment="why the last attempt failed"),
        sa.Column("sent_at", sa.BigInteger),
        sa.ForeignKeyConstraint(
            ["message_id"],
            ["alert_messages.id"],
            name=op.f("fk_alert_deliveries_message_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["channel_id"],
            ["alert_channels.id"],
            name=op.f("fk_alert_deliveries_channel_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_deliveries")),
        sa.UniqueConstraint(
            "message_id", "channel_id", name=op.f("uq_alert_deliveries_message_id_channel_id")
        ),
    )
    op.create_index("ix_alert_deliveries_channel_id", "alert_deliveries", ["channel_id"])
    op.create_index("ix_alert_deliveries_state_due_at", "alert_deliveries", ["state", "due_at"])


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
