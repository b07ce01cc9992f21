"""SQL for digests. Each function runs in the transaction of its connection."""

from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, delete, insert, select, update

from penstock.alerts.digests.model import Digest
from penstock.base.ids import WorkspaceId
from penstock.metadb.rows import record_of, row_values
from penstock.metadb.tables import digests, users, workspaces

_D = digests.c


def find(db: Connection, workspace_id: str, user_id: str) -> Digest | None:
    own = (_D.workspace_id == workspace_id, _D.user_id == user_id)
    row = db.execute(select(digests).where(*own)).first()
    return None if row is None else record_of(row, Digest)


def replace(db: Connection, digest: Digest) -> None:
    """Store a subscription, instead of an earlier one of the same person."""
    remove(db, digest.workspace_id, digest.user_id)
    db.execute(insert(digests).values(row_values(digest, digests)))


def remove(db: Connection, workspace_id: str, user_id: str) -> None:
    db.execute(delete(digests).where(_D.workspace_id == workspace_id, _D.user_id == user_id))


def first_due(db: Connection, now_ms: int) -> Digest | None:
    """Return the digest that is most overdue."""
    due = select(digests).where(_D.due_at <= now_ms).order_by(_D.due_at).limit(1)
    row = db.execute(due).first()
    return None if row is None else record_of(row, Digest)


def move(db: Connection, digest: Digest, **changed: Any) -> bool:
    """Change the columns of a digest. Returns False if the digest has changed since it was read."""
    unchanged = and_(
        _D.workspace_id == digest.workspace_id,
        _D.user_id == digest.user_id,
        _D.slot_at == digest.slot_at_ms,
        _D.due_at == digest.due_at_ms,
    )
    return db.execute(update(digests).where(unchanged).values(changed)).rowcount > 0


class Recipient(NamedTuple):
    """The address of a subscriber, and the name of the workspace."""

    email: str
    is_confirmed: bool
    workspace: str


def recipient(db: Connection, workspace_id: WorkspaceId, user_id: str) -> Recipient | None:
    row = db.execute(
        select(users.c.email, users.c.email_confirmed_at, workspaces.c.name)
        .select_from(users)
        .join(workspaces, workspaces.c.id == workspace_id)
        .where(users.c.id == user_id)
    ).first()
    return None if row is None else Recipient(row[0], row[1] is not None, row[2])
