"""SQL for API keys. Each function runs in the transaction of its connection."""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, insert, or_, select, update

from penstock.accounts.keys.schema import KeyRecord
from penstock.accounts.model import Caller
from penstock.base.ids import KeyId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.http.scopes import ALL_SCOPES, KeyScope
from penstock.metadb.pages import listing_of, newest_first
from penstock.metadb.tables import api_keys, memberships


def add_key(
    db: Connection, actor: Caller, scopes: Collection[KeyScope], columns: Mapping[str, Any]
) -> None:
    """Add a key. columns: its other columns."""
    db.execute(
        insert(api_keys).values(
            **columns,
            scopes=" ".join(sorted(scopes)),
            workspace_id=actor.workspace_id,
            created_by=actor.user_id,
            created_by_email=actor.name,
        )
    )


def keys(
    db: Connection, workspace_id: WorkspaceId, page: Page, used_at_ms: Mapping[KeyId, int]
) -> Listing[KeyRecord]:
    """List the workspace's keys, newest first, including revoked keys.

    used_at_ms: latest uses of keys that are not stored yet.
    """
    statement = select(api_keys).where(api_keys.c.workspace_id == workspace_id)

    def read(row: Row[Any]) -> KeyRecord:
        return KeyRecord.from_object(
            row,
            created_by=row.created_by_email,
            scopes=[scope for scope in KeyScope if scope in _scopes(row.scopes)],
            last_used_at=max(row.last_used_at or 0, used_at_ms.get(row.id, 0)) or None,
        )

    return listing_of(db, statement.order_by(*newest_first(api_keys)), page, read)


def _scopes(stored: str | None) -> frozenset[KeyScope]:
    """Parse a key's stored scopes. Old keys without stored scopes have all scopes."""
    return ALL_SCOPES if stored is None else frozenset(map(KeyScope, stored.split()))


def key_holder(db: Connection, key_hash: bytes, now_ms: int) -> Caller | None:
    """Return the caller that a key identifies; None if the key is unknown, revoked or expired."""
    c = api_keys.c
    row = db.execute(
        select(c.id, c.workspace_id, c.name, c.scopes, c.website_id).where(
            c.key_hash == key_hash,
            c.revoked_at.is_(None),
            c.expires_at.is_(None) | (c.expires_at > now_ms),
        )
    ).first()
    if row is None:
        return None
    return Caller(
        WorkspaceId(row.workspace_id),
        key_id=KeyId(row.id),
        name=row.name,
        scopes=_scopes(row.scopes),
        website_id=row.website_id,
    )


def revoke_keys_of(
    db: Connection, user_id: str, now_ms: int, workspace_id: WorkspaceId | None = None
) -> list[bytes]:
    """Revoke the keys that a user created in the workspace. Returns their hashes.

    workspace_id: None for all workspaces that the user is a member of.
    """
    c, own = api_keys.c, select(memberships.c.workspace_id).where(memberships.c.user_id == user_id)
    is_there = c.workspace_id.in_(own) if workspace_id is None else c.workspace_id == workspace_id
    is_key = (is_there, c.created_by == user_id, c.revoked_at.is_(None))
    revoked = update(api_keys).where(*is_key).values(revoked_at=now_ms).returning(c.key_hash)
    return list(db.execute(revoked).scalars())


def count_keys_by_creator(db: Connection, workspace_id: WorkspaceId) -> dict[str, int]:
    """Return the number of unrevoked keys in the workspace by the creator's user ID."""
    c = api_keys.c
    rows = db.execute(
        select(c.created_by, func.count().label("n"))
        .where(c.workspace_id == workspace_id, c.revoked_at.is_(None), c.created_by.is_not(None))
        .group_by(c.created_by)
    )
    return {row.created_by: row.n for row in rows}


def revoke_key(db: Connection, workspace_id: WorkspaceId, key_id: str, now_ms: int) -> bytes | None:
    """Revoke the key and return its hash; None if the workspace does not have this key.

    Revoking again keeps the time of the first revocation.
    """
    is_key = (api_keys.c.workspace_id == workspace_id) & (api_keys.c.id == key_id)
    db.execute(
        update(api_keys).where(is_key, api_keys.c.revoked_at.is_(None)).values(revoked_at=now_ms)
    )
    key_hash: bytes | None = db.scalar(select(api_keys.c.key_hash).where(is_key))
    return key_hash


def update_last_uses(db: Connection, used_at_ms: Mapping[KeyId, int]) -> None:
    """Update `last_used_at`, unless another node has already written a later time."""
    statement = (
        update(api_keys)
        .where(
            api_keys.c.id == bindparam("key"),
            or_(api_keys.c.last_used_at.is_(None), api_keys.c.last_used_at < bindparam("at")),
        )
        .values(last_used_at=bindparam("at"))
    )
    db.execute(statement, [{"key": key, "at": at_ms} for key, at_ms in sorted(used_at_ms.items())])
