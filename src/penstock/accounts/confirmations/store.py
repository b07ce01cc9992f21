"""SQL for confirmations. Each function runs in the transaction of its connection."""

from sqlalchemy import Connection, delete, insert, select

from penstock.base.ids import UserAccountId
from penstock.metadb.tables import email_confirmations


def add_confirmation(
    db: Connection, token_hash: bytes, user_id: UserAccountId, now_ms: int, expires_at_ms: int
) -> None:
    """Store the token, and delete all users' expired tokens."""
    c = email_confirmations.c
    db.execute(delete(email_confirmations).where(c.expires_at <= now_ms))
    db.execute(
        insert(email_confirmations).values(
            token_hash=token_hash, user_id=user_id, expires_at=expires_at_ms
        )
    )


def is_valid(db: Connection, token_hash: bytes, user_id: UserAccountId, now_ms: int) -> bool:
    """Whether the token belongs to this user, is unused and has not expired."""
    c = email_confirmations.c
    statement = select(c.user_id).where(
        c.token_hash == token_hash, c.user_id == user_id, c.expires_at > now_ms
    )
    return db.execute(statement).first() is not None


def end_confirmations(db: Connection, user_id: UserAccountId) -> None:
    db.execute(delete(email_confirmations).where(email_confirmations.c.user_id == user_id))
