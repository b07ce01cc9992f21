"""Second factors with recovery codes, log-ins that wait for a code, password resets.

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def _user(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["user_id"], ["users.id"], name=op.f(f"fk_{table}_user_id"), ondelete="CASCADE"
    )


def upgrade() -> None:
    op.create_table(
        "second_factors",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column(
            "secret", sa.Text(), nullable=False, comment="encrypted: codes are computed with it"
        ),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column(
            "confirmed_at", sa.BigInteger(), comment="unset: log-in does not ask for it yet"
        ),
        sa.Column("last_step", sa.BigInteger(), comment="time step of the last accepted code"),
        _user("second_factors"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_second_factors")),
        sa.UniqueConstraint("user_id", name=op.f("uq_second_factors_user_id")),
    )
    op.create_table(
        "recovery_codes",
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("code_hash", sa.LargeBinary(), nullable=False, comment="SHA-256 of the code"),
        _user("recovery_codes"),
        sa.PrimaryKeyConstraint("user_id", "code_hash", name=op.f("pk_recovery_codes")),
    )
    op.create_table(
        "pending_log_ins",
        sa.Column(
            "token_hash", sa.LargeBinary(), nullable=False, comment="SHA-256 of the cookie"
        ),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("wrong_codes", sa.Integer(), nullable=False, comment="it ends with the fifth"),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        _user("pending_log_ins"),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_pending_log_ins")),
    )
    op.create_table(
        "password_resets",
        sa.Column(
            "token_hash",
            sa.LargeBinary(),
            nullable=False,
            comment="SHA-256 of the token in the URL",
        ),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        _user("password_resets"),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_password_resets")),
    )
    for table in ("pending_log_ins", "password_resets"):
        for column in ("user_id", "expires_at"):
            op.create_index(op.f(f"ix_{table}_{column}"), table, [column])


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
