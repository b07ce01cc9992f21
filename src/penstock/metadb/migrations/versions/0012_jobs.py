"""Jobs, so that every node knows them.

Revision ID: 0012
Revises: 0011
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("workspace_id", sa.Text(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False, comment="method and path of what it answers"),
        sa.Column("state", sa.Text(), nullable=False, comment="queued, running, done, failed or cancelled"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), comment="unset: it is queued"),
        sa.Column("finished_at", sa.BigInteger()),
        sa.Column(
            "alive_at",
            sa.BigInteger(),
            nullable=False,
            comment="when its node last worked on it: an old time says that the node is gone",
        ),
        sa.Column("rows_read", sa.BigInteger(), nullable=False),
        sa.Column("rows_to_read", sa.BigInteger(), nullable=False, comment="estimated"),
        sa.Column("status", sa.Integer(), comment="of the response; unset: there is none"),
        sa.Column("media_type", sa.Text(), comment="of the response"),
        sa.Column("headers", sa.JSON(), comment="of the response"),
        sa.Column("bytes", sa.BigInteger(), nullable=False, comment="length of the response"),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=op.f("fk_jobs_workspace_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index(op.f("ix_jobs_workspace_id_created_at"), "jobs", ["workspace_id", "created_at"])
    op.create_index(op.f("ix_jobs_alive_at"), "jobs", ["alive_at"])
    op.create_table(
        "job_responses",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False, comment="from 0"),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_job_responses_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "part", name=op.f("pk_job_responses")),
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
