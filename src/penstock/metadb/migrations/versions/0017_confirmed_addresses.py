"""Confirmed email addresses, and the networks that users log in from.

Confirmed from the start are the first account, which the operator created, those that single
sign-on created, and those that joined by invitation and have since logged in by single sign-on or
with a reset link. An account that signed up by itself has proven nothing: its owner may have used
single sign-on later, in an account that a stranger made.

Revision ID: 0017
Revises: 0016
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def _user(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["user_id"], ["users.id"], name=op.f(f"fk_{table}_user_id"), ondelete="CASCADE"
    )


def upgrade() -> None:
    op.add_column(
        "users",
        sa.Column(
            "email_confirmed_at",
            sa.BigInteger(),
            comment="unset: anyone may have signed up with it",
        ),
    )
    op.create_table(
        "email_confirmations",
        sa.Column(
            "token_hash",
            sa.LargeBinary(),
            nullable=False,
            comment="SHA-256 of the token in the URL",
        ),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        _user("email_confirmations"),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_email_confirmations")),
    )
    for column in ("user_id", "expires_at"):
        op.create_index(
            op.f(f"ix_email_confirmations_{column}"), "email_confirmations", [column]
        )
    op.create_table(
        "known_networks",
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column(
            "network_hash",
            sa.LargeBinary(),
            nullable=False,
            comment="keyed hash of the network of a log-in",
        ),
        sa.Column("last_log_in_at", sa.BigInteger(), nullable=False),
        _user("known_networks"),
        sa.PrimaryKeyConstraint("user_id", "network_hash", name=op.f("pk_known_networks")),
    )
    op.add_column(
        "password_resets",
        sa.Column(
            "is_mailed",
            sa.Boolean(),
            nullable=False,
            server_default=sa.false(),
            comment="whether only the mail to the user has the token",
        ),
    )
    op.add_column(
        "invitations",
        sa.Column(
            "mailed_token_hash",
            sa.LargeBinary(),
            comment="SHA-256 of the longer token, which only the mail has; unset: not mailed",
        ),
    )
    op.create_index(
        op.f("ix_invitations_mailed_token_hash"),
        "invitations",
        ["mailed_token_hash"],
        unique=True,
    )
    confirm_earlier_accounts()


def confirm_earlier_accounts() -> None:
    """Confirm the addresses that accounts have proven, as the audit log says."""
    op.execute(
        """
        UPDATE users SET email_confirmed_at = created_at
        WHERE id = (SELECT id FROM users ORDER BY created_at, id LIMIT 1)
            OR id IN (
                SELECT actor_id FROM audit_entries
                WHERE action IN ('member_joined', 'signed_in') AND target LIKE '%: single sign-on'
                    OR action = 'password_reset')
            AND id NOT IN (SELECT actor_id FROM audit_entries WHERE action = 'signed_up')
            AND id IN (SELECT actor_id FROM audit_entries WHERE action = 'member_joined')
        """
    )


def downgrade() -> None:
    raise NotImplementedError("Penstock does not downgrade a store; restore a backup.")
