"""SQL of password resets. Each function runs in the transaction of its connection."""

from sqlalchemy import Connection, delete, insert, select

from penstock.base.ids import UserAccountId
from penstock.metadb.tables import password_resets, sessions, users


def add_reset(
    db: Connection, token_hash: bytes, user_id: UserAccountId, now_ms: int, expires_at_ms: int
) -> None:
    """Store the reset; expired ones of all users are deleted."""
    db.execute(delete(password_resets).where(password_resets.c.expires_at <= now_ms))
    db.execute(
        insert(password_resets).values(
            token_hash=token_hash, user_id=user_id, expires_at=expires_at_ms
        )
    )


def email_of_reset(db: Connection, token_hash: bytes, now_ms: int) -> str | None:
    """Email address of the user with this token; None when it is unknown, used or expired."""
    c = password_resets.c
    is_valid = (c.token_hash == token_hash, c.expires_at > now_ms)
    email: str | None = db.scalar(
        select(users.c.email).join(password_resets, c.user_id == users.c.id).where(*is_valid)
    )
    return email


def end_resets(db: Connection, user_id: UserAccountId) -> None:
    db.execute(delete(password_resets).where(password_resets.c.user_id == user_id))


def end_sessions(db: Connection, user_id: UserAccountId) -> None:
    """End all sessions of the user."""
    db.execute(delete(sessions).where(sessions.c.user_id == user_id))
