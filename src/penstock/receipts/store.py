"""SQL for receipts and their keys. Each function runs in the transaction of its connection."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, text, true, update

from penstock.base.ids import WorkspaceId
from penstock.base.paging import Page
from penstock.metadb.pages import newest_first, page_of
from penstock.metadb.tables import receipt_keys, receipts

_C, _KEY = receipts.c, receipt_keys.c


def add(db: Connection, columns: Mapping[str, Any]) -> None:
    db.execute(insert(receipts).values(columns))


def page_of_receipts(
    db: Connection, workspace_id: WorkspaceId, page: Page, funnel_id: str | None
) -> tuple[Sequence[Row[*tuple[Any, ...]]], int]:
    """Return a page of receipts, newest first, and their number. funnel_id: only on this funnel."""
    of_funnel = true() if funnel_id is None else _C.funnel_id == funnel_id
    statement = select(receipts).where(_C.workspace_id == workspace_id, of_funnel)
    return page_of(db, statement.order_by(*newest_first(receipts)), page)


def read(
    db: Connection, workspace_id: WorkspaceId, receipt_id: str
) -> Row[*tuple[Any, ...]] | None:
    own = (_C.workspace_id == workspace_id, _C.id == receipt_id)
    return db.execute(select(receipts).where(*own)).first()


def newest_on(db: Connection, workspace_id: WorkspaceId, question: str) -> str | None:
    """Return the ID of the newest receipt of a question."""
    same = (_C.question == question, _C.workspace_id == workspace_id)
    return db.execute(
        select(_C.id).where(*same).order_by(*newest_first(receipts)).limit(1)
    ).scalar()


def remove(db: Connection, workspace_id: WorkspaceId, receipt_id: str) -> str | None:
    """Delete a receipt. Returns its name; None if there is none."""
    own = (_C.workspace_id == workspace_id, _C.id == receipt_id)
    return db.execute(delete(receipts).where(*own).returning(_C.name)).scalar()


def keys(db: Connection) -> Sequence[Row[*tuple[Any, ...]]]:
    """Return all keys, the newest first."""
    return db.execute(select(receipt_keys).order_by(*newest_first(receipt_keys))).all()


def lock_keys(db: Connection) -> None:
    """Make other transactions that change the keys wait. In SQLite, they wait anyway."""
    if db.dialect.name == "postgresql":
        db.execute(text("LOCK TABLE receipt_keys IN SHARE ROW EXCLUSIVE MODE"))


def add_key(db: Connection, columns: Mapping[str, Any]) -> None:
    db.execute(insert(receipt_keys).values(columns))


def retire_keys(db: Connection, now_ms: int) -> None:
    """End the signing of all keys, and erase their private keys."""
    db.execute(
        update(receipt_keys)
        .where(_KEY.retired_at.is_(None))
        .values(private_key=None, retired_at=now_ms)
    )
