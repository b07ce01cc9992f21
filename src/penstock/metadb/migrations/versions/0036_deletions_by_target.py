"""Index deletions by target and end, for the page of exports.

Revision ID: 0036
Revises: 0035
"""

from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_deletions_workspace_id_target_finished_at",
        "deletions",
        ["workspace_id", "target", "finished_at"],
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
