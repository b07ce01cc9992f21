"""SQL for confirmations. Each function runs in the transaction of its connection."""

from sqlalchemy import Connection, delete, select

from penstock.base.ids import UserAccountId
from penstock.metadb.tables import email_confirmations


def is_valid(db: Connection, token_hash: bytes, user_id: UserAccountId, now_ms: int) -> bool:
    """Whether the token belongs to this user, is unused and has not expired."""
    c = email_confirmations.c
    statement = select(c.user_id).where(
        c.token_hash == token_hash, c.user_id == user_id, c.expires_at > now_ms
    )
    return db.execute(statement).first() is not None


def end_confirmations(db: Connection, user_id: UserAccountId) -> None:
    db.execute(delete(email_confirmations).where(email_confirmations.c.user_id == user_id))
