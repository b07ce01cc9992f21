"""Open releases, which have too many visitors for one transaction.

They take effect at once, and a worker updates the rows later. They are rare, so one query reads all
open releases of a scope.
"""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection, bindparam, delete, select

from penstock.base.ids import ScopeId, VisitorId
from penstock.identity.resolution import VisitorKey
from penstock.metadb.rows import change_rows, insert_rows, select_rows
from penstock.metadb.tables import merges, open_releases

_C = open_releases.c
_SELECT = select(_C.scope_id, _C.visitor_id, _C.user_id).where(
    _C.scope_id.in_(bindparam("scopes", expanding=True))
)
"""The statement is built once, because every commit of events runs it."""


def read(connection: Connection, scopes: Collection[ScopeId]) -> dict[VisitorKey, str]:
    """Return the open releases: the user whose claim caused each one, keyed by canonical
    visitor.
    """
    rows = connection.execute(_SELECT, {"scopes": list(scopes)})
    return {(ScopeId(scope), visitor_id): user_id for scope, visitor_id, user_id in rows}


def deletion(connection: Connection, scope: ScopeId, visitor_id: str) -> bool | None:
    """Whether a visitor's open release is a deletion; None if the visitor has no open release."""
    return connection.execute(
        select(_C.is_deletion).where(_C.scope_id == scope, _C.visitor_id == visitor_id)
    ).scalar()


def add(
    connection: Connection, users: Mapping[VisitorKey, str], now_ms: int, *, is_deletion: bool
) -> None:
    """Store new open releases. users: the user whose claim caused each release, by canonical
    visitor.
    """
    rows = [(*key, user_id, is_deletion, now_ms) for key, user_id in sorted(users.items())]
    columns = ("scope_id", "visitor_id", "user_id", "is_deletion", "created_at")
    insert_rows(connection, open_releases, columns, rows)


def any_by_claim(connection: Connection) -> bool:
    """Whether any release that a claim caused is still open."""
    by_claim = select(_C.visitor_id).where(_C.is_deletion.is_(False)).limit(1)
    return connection.execute(by_claim).first() is not None


def lock_oldest(connection: Connection) -> tuple[ScopeId, VisitorId, str] | None:
    """Lock the oldest release that was caused by a claim and is not locked by another node.

    Returns its scope, visitor and user; None if there is no such release.
    """
    row = connection.execute(
        select(_C.scope_id, _C.visitor_id, _C.user_id)
        .where(_C.is_deletion.is_(False))
        .order_by(_C.created_at)
        .limit(1)
        .with_for_update(skip_locked=True)
    ).first()
    return None if row is None else (ScopeId(row[0]), VisitorId(row[1]), row[2])


def some_merges(
    connection: Connection, scope: ScopeId, visitor_id: VisitorId, number: int
) -> list[tuple[int, str]]:
    """Return up to `number` merges into a visitor, each as its number and the absorbed visitor."""
    c = merges.c
    rows = connection.execute(
        select(c.id, c.absorbed_id)
        .where(c.scope_id == scope, c.kept_id == visitor_id, c.absorbed_id != visitor_id)
        .order_by(c.id)
        .limit(number)
    )
    return [(merge_id, absorbed_id) for merge_id, absorbed_id in rows]


def merges_between(
    connection: Connection, scope: ScopeId, visitor_id: VisitorId, absorbed: Sequence[str]
) -> list[int]:
    """Return the numbers of the merges of these absorbed visitors into the given visitor.

    The statement filters by absorbed visitor only. The given visitor may have absorbed a very large
    number of others, and a statement that also filtered by it might read all its merges.
    """
    columns, where = ("id", "kept_id"), {"scope_id": scope}
    rows = select_rows(connection, merges, columns, where, "absorbed_id", absorbed)
    return [merge_id for merge_id, visitor in rows if visitor == visitor_id]


def remove_merges(connection: Connection, merge_ids: Sequence[int]) -> None:
    """Delete merges by number. Each deletion is a single primary-key lookup."""
    change_rows(connection, "DELETE FROM merges", {}, "id", merge_ids)


def close(connection: Connection, scope: ScopeId, visitor_id: str) -> None:
    connection.execute(
        delete(open_releases).where(_C.scope_id == scope, _C.visitor_id == visitor_id)
    )
