"""SQL for password resets. Each function runs in the transaction of its connection."""

from sqlalchemy import Connection, select

from penstock.metadb.tables import password_resets, users


def reset(db: Connection, token_hash: bytes, now_ms: int) -> tuple[str, bool] | None:
    """Return the email address of the token's user, and whether the token was emailed to them.

    Returns None if the token is unknown, used or expired.
    """
    c = password_resets.c
    is_valid = (c.token_hash == token_hash, c.expires_at > now_ms)
    columns = select(users.c.email, c.is_mailed).join(password_resets, c.user_id == users.c.id)
    row = db.execute(columns.where(*is_valid)).first()
    return None if row is None else (row.email, row.is_mailed)
