"""SQL of API keys. Each function runs in the transaction of its connection."""

from collections.abc import Mapping

from sqlalchemy import Connection, bindparam, insert, or_, select, update

from penstock.accounts.keys.model import ApiKey
from penstock.accounts.model import Caller
from penstock.base.ids import KeyId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.metadb.pages import page_of
from penstock.metadb.tables import api_keys


def add_key(db: Connection, workspace_id: WorkspaceId, key: ApiKey, key_hash: bytes) -> None:
    db.execute(
        insert(api_keys).values(
            id=key.id,
            workspace_id=workspace_id,
            name=key.name,
            key_hash=key_hash,
            prefix=key.prefix,
            created_at=key.created_at_ms,
        )
    )


def keys(db: Connection, workspace_id: WorkspaceId, page: Page) -> Listing[ApiKey]:
    """Newest first, including revoked keys."""
    statement = select(api_keys).where(api_keys.c.workspace_id == workspace_id)
    rows, total = page_of(
        db, statement.order_by(api_keys.c.created_at.desc(), api_keys.c.id.desc()), page
    )
    page_keys = [
        ApiKey(
            KeyId(row.id), row.name, row.prefix, row.created_at, row.last_used_at, row.revoked_at
        )
        for row in rows
    ]
    return Listing(page_keys, page, total)


def key_holder(db: Connection, key_hash: bytes) -> Caller | None:
    """The caller that a key stands for. None for an unknown or revoked key."""
    row = db.execute(
        select(api_keys.c.id, api_keys.c.workspace_id).where(
            api_keys.c.key_hash == key_hash, api_keys.c.revoked_at.is_(None)
        )
    ).first()
    return (
        None
        if row is None
        else Caller(workspace_id=WorkspaceId(row.workspace_id), key_id=KeyId(row.id))
    )


def revoke_key(db: Connection, workspace_id: WorkspaceId, key_id: str, now_ms: int) -> bytes | None:
    """Revoke the key and return its hash. None when the workspace has no such key.

    Revoking again keeps the time of the first revocation.
    """
    is_key = (api_keys.c.workspace_id == workspace_id) & (api_keys.c.id == key_id)
    db.execute(
        update(api_keys).where(is_key, api_keys.c.revoked_at.is_(None)).values(revoked_at=now_ms)
    )
    key_hash: bytes | None = db.scalar(select(api_keys.c.key_hash).where(is_key))
    return key_hash


def update_last_uses(db: Connection, used_at_ms: Mapping[KeyId, int]) -> None:
    """Advance `last_used_at`; another node may have written a later use already."""
    statement = (
        update(api_keys)
        .where(
            api_keys.c.id == bindparam("key"),
            or_(api_keys.c.last_used_at.is_(None), api_keys.c.last_used_at < bindparam("at")),
        )
        .values(last_used_at=bindparam("at"))
    )
    db.execute(statement, [{"key": key, "at": at_ms} for key, at_ms in sorted(used_at_ms.items())])
