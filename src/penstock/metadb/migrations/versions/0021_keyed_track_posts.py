"""Note until when posts to /api/track with and without an API key shared dedupe keys.

That is the time of the newest key; later ones have later times. A new installation has none.

Revision ID: 0021
Revises: 0020
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "installation",
        sa.Column(
            "track_split_at",
            sa.BigInteger(),
            comment="until then, posts to /api/track with and without a key shared dedupe keys",
        ),
    )
    note_split()


def note_split() -> None:
    op.execute(
        "UPDATE installation SET track_split_at = "
        "(SELECT created_at FROM dedupe_keys ORDER BY id DESC LIMIT 1)"
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
