"""Add receipts of numbers, and the keys that sign them.

Revision ID: 0048
Revises: 0046
"""

import sqlalchemy as sa
from alembic import op

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "receipts",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("workspace_id", sa.Text, nullable=False),
        sa.Column(
            "funnel_id", sa.Text, nullable=False, comment="the funnel may have been deleted since"
        ),
        sa.Column(
            "question",
            sa.Text,
            nullable=False,
            comment="hash of the funnel, its revision and what was selected of it",
        ),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column(
            "created_by",
            sa.Text,
            nullable=False,
            comment="e-mail address of the member, or name of the key",
        ),
        sa.Column(
            "document", sa.Text, nullable=False, comment="what is signed: canonical JSON"
        ),
        sa.Column("key_id", sa.Text, nullable=False, comment="of the key that signed it"),
        sa.Column("signature", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_receipts_workspace_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_receipts")),
    )
    op.create_index(
        "ix_receipts_workspace_id_created_at", "receipts", ["workspace_id", "created_at"]
    )
    op.create_index("ix_receipts_funnel_id_created_at", "receipts", ["funnel_id", "created_at"])
    op.create_index("ix_receipts_question", "receipts", ["question"])
    op.create_table(
        "receipt_keys",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("public_key", sa.Text, nullable=False, comment="Ed25519, in base64"),
        sa.Column(
            "private_key", sa.Text, comment="sealed; unset once another key has replaced it"
        ),
        sa.Column(
            "sums_key",
            sa.Text,
            nullable=False,
            comment="sealed; keys the hashes of the receipts that it signed",
        ),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("retired_at", sa.BigInteger, comment="unset: it signs"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_receipt_keys")),
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
