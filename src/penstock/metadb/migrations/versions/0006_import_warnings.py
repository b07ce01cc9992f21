"""Warnings about the events of an import; the click buffer's own name in a comment.

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_EARLY_MS = 100_000_000_000
"""Before this time, 1973-03-03, earlier versions showed the warning about seconds."""


def upgrade() -> None:
    op.add_column(
        "imports",
        sa.Column(
            "warnings", sa.JSON(), comment="codes of the warnings about its events; unset: none"
        ),
    )
    imports = sa.table(
        "imports", sa.column("first_event_at", sa.BigInteger()), sa.column("warnings", sa.JSON())
    )
    op.execute(
        imports.update()
        .where(imports.c.first_event_at < _EARLY_MS)
        .values(warnings=["timestamp_looks_like_seconds"])
    )
    if op.get_context().dialect.supports_comments:
        op.alter_column(
            "click_buffer_files",
            "name",
            existing_type=sa.Text(),
            existing_nullable=False,
            comment="a file of the click buffer whose rows are in the outbox, "
            "until the file is gone",
        )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
