"""SQL for known networks. Each function runs in the transaction of its connection."""

from sqlalchemy import Connection, delete, insert, select, update

from penstock.base.ids import UserAccountId
from penstock.metadb.tables import known_networks, users

_MAX_NETWORKS = 20
"""Maximum number of networks remembered for a user."""


def remember(db: Connection, user_id: UserAccountId, network_hash: bytes, now_ms: int) -> None:
    """Record a log-in. A network beyond the maximum replaces the user's oldest."""
    c = known_networks.c
    is_known = (c.user_id == user_id, c.network_hash == network_hash)
    if db.execute(update(known_networks).where(*is_known).values(last_log_in_at=now_ms)).rowcount:
        return
    newest = select(c.network_hash).where(c.user_id == user_id).order_by(c.last_log_in_at.desc())
    staying = db.scalars(newest.limit(_MAX_NETWORKS - 1)).all()
    db.execute(delete(known_networks).where(c.user_id == user_id, c.network_hash.not_in(staying)))
    db.execute(
        insert(known_networks).values(
            user_id=user_id, network_hash=network_hash, last_log_in_at=now_ms
        )
    )


def is_known(db: Connection, email: str, network_hash: bytes) -> bool:
    c = known_networks.c
    statement = select(c.user_id).join(users, users.c.id == c.user_id)
    statement = statement.where(users.c.email == email, c.network_hash == network_hash)
    return db.execute(statement).first() is not None


def forget_all(db: Connection, user_id: UserAccountId) -> None:
    db.execute(delete(known_networks).where(known_networks.c.user_id == user_id))
