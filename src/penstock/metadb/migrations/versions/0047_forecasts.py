"""Keep the forecasts of a day.

Revision ID: 0047
Revises: 0046
"""

import sqlalchemy as sa
from alembic import op

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "forecast_records",
        sa.Column("workspace_id", sa.Text, nullable=False),
        sa.Column("question", sa.Text, nullable=False, comment="hash of all that determines it"),
        sa.Column("evaluated_at", sa.BigInteger, nullable=False),
        sa.Column("made_at", sa.BigInteger, nullable=False),
        sa.Column(
            "content",
            sa.Text,
            nullable=False,
            comment="chances, calibration and earlier forecasts, as JSON",
        ),
        sa.ForeignKeyConstraint(
            ["workspace_id"],
            ["workspaces.id"],
            name=op.f("fk_forecast_records_workspace_id"),
        ),
        sa.PrimaryKeyConstraint("workspace_id", "question", name=op.f("pk_forecast_records")),
    )
    op.create_index("ix_forecast_records_made_at", "forecast_records", ["made_at"])
    op.create_table(
        "funnel_forecasts",
        sa.Column("funnel_id", sa.Text, nullable=False),
        sa.Column("workspace_id", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False, comment="that of the definition"),
        sa.Column(
            "due_at", sa.BigInteger, nullable=False, comment="when a node makes the next one"
        ),
        sa.Column(
            "attempts", sa.Integer, nullable=False, comment="those that failed or are under way"
        ),
        sa.Column("evaluated_at", sa.BigInteger, comment="unset: there is none yet"),
        sa.Column(
            "content",
            sa.Text,
            comment="the forecast as in a response, as JSON; unset: nothing open",
        ),
        sa.ForeignKeyConstraint(
            ["funnel_id"],
            ["funnels.id"],
            name=op.f("fk_funnel_forecasts_funnel_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["workspace_id"],
            ["workspaces.id"],
            name=op.f("fk_funnel_forecasts_workspace_id"),
        ),
        sa.PrimaryKeyConstraint("funnel_id", name=op.f("pk_funnel_forecasts")),
    )
    op.create_index("ix_funnel_forecasts_due_at", "funnel_forecasts", ["due_at"])


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
