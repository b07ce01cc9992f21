"""SQL for shared reports. Each function runs in the transaction of its connection."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    bindparam,
    case,
    delete,
    func,
    insert,
    select,
    true,
    update,
)

from penstock.base.ids import WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.metadb.pages import listing_of, newest_first
from penstock.metadb.tables import shares
from penstock.shares.model import Share
from penstock.shares.schema import ShareRecord

_C = shares.c


def add(db: Connection, columns: Mapping[str, Any]) -> None:
    db.execute(insert(shares).values(columns))


def page_of_shares(
    db: Connection, workspace_id: WorkspaceId, page: Page, funnel_id: str | None
) -> Listing[ShareRecord]:
    """List the workspace's shares, newest first. funnel_id: only those of this funnel."""
    of_funnel = true() if funnel_id is None else _C.funnel_id == funnel_id
    statement = select(shares).where(_C.workspace_id == workspace_id, of_funnel)
    return listing_of(db, statement.order_by(*newest_first(shares)), page, ShareRecord.from_object)


def share_of_token(db: Connection, token_hash: bytes) -> Share | None:
    columns = (_C.id, _C.workspace_id, _C.funnel_id, _C.name, _C.parameters, _C.expires_at)
    row = db.execute(select(*columns).where(_C.token_hash == token_hash)).first()
    return None if row is None else Share(*row)


def remove(db: Connection, workspace_id: WorkspaceId, share_id: str) -> tuple[str, bytes] | None:
    """Delete a share. Returns its name and the hash of its token; None if there is none."""
    own = (_C.workspace_id == workspace_id, _C.id == share_id)
    row = db.execute(delete(shares).where(*own).returning(_C.name, _C.token_hash)).first()
    return None if row is None else (row.name, row.token_hash)


def remove_expired(db: Connection, workspace_id: WorkspaceId, before_ms: int) -> None:
    """Delete the workspace's shares that expired before a time."""
    db.execute(delete(shares).where(_C.workspace_id == workspace_id, _C.expires_at < before_ms))


def count_opens(db: Connection, opens: Mapping[str, tuple[int, int]]) -> None:
    """Add to the counts of shares.

    opens: the number of times that each share was opened, and the last time, by its ID.
    """
    last, at_ms = func.coalesce(_C.last_opened_at, 0), bindparam("at", type_=BigInteger)
    statement = (
        update(shares)
        .where(_C.id == bindparam("share"))
        .values(
            opens=_C.opens + bindparam("count"),
            last_opened_at=case((last < at_ms, at_ms), else_=last),
        )
    )
    rows = [
        {"share": share_id, "count": count, "at": last_at_ms}
        for share_id, (count, last_at_ms) in sorted(opens.items())
    ]
    db.execute(statement, rows)
