"""Finds all IDs of a visitor, and removes their rows."""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, func, select, text

from penstock.base.errors import ConcurrentUpdate
from penstock.base.ids import ScopeId, VisitorId
from penstock.identity.imports import store as imports
from penstock.identity.model import AllIds, VisitorRemoval
from penstock.identity.releases import store as open_releases
from penstock.identity.resolution import VisitorKey
from penstock.identity.store import RELEASED_AT_ONCE
from penstock.metadb.rows import change_rows
from penstock.metadb.tables import merges, user_links, visitors

_DELETE_VISITORS = "DELETE FROM visitors"


def all_ids(
    connection: Connection, scope: ScopeId, *, visitor_id: str | None, user_id: str | None
) -> AllIds | None:
    """Return all IDs of a visitor; None if the user has no visitor.

    visitor_id, user_id: any ID of the visitor, or its user; exactly one is set.
    """
    canonical = _canonical(connection, scope, visitor_id, user_id)
    if canonical is None:
        return None
    canonical_id, linked_user = canonical
    rows = _merges_after(connection, scope, canonical_id, 0)
    own = select(func.max(merges.c.id)).where(
        merges.c.scope_id == scope, merges.c.absorbed_id == canonical_id
    )
    return AllIds(
        ids=_distinct([canonical_id, *(absorbed_id for _, absorbed_id in rows)]),
        user_id=linked_user,
        merges=len(rows),
        last_merge=max(rows[-1][0] if rows else 0, connection.execute(own).scalar() or 0),
    )


def forget(
    connection: Connection,
    scope: ScopeId,
    known: AllIds | None,
    now_ms: int,
    *,
    visitor_id: str | None,
    user_id: str | None,
) -> VisitorRemoval:
    """Remove a visitor, all visitors it absorbed, and its user link with its traits.

    Events that arrive after the commit create a new visitor, on every node.

    connection: has an open write transaction. known: the result of `all_ids`, read in advance to
    keep this transaction short. visitor_id, user_id: any ID of the visitor, or its user; exactly
    one is set.

    Raises `ConcurrentUpdate` if the visitor has changed since then or, on PostgreSQL, if the lock
    takes too long; the caller must roll back, and read its IDs again.
    """
    lock_out_other_transactions(connection)
    canonical = _canonical(connection, scope, visitor_id, user_id)
    if known is None and canonical is None:
        return VisitorRemoval()
    if known is None or canonical != (known.ids[0], known.user_id):
        raise ConcurrentUpdate(reason="the visitor was linked or merged meanwhile")
    canonical_id, linked_user = canonical
    has_newer = bool(_merges_after(connection, scope, canonical_id, known.last_merge))
    if has_newer or _count_merges(connection, scope, canonical_id) != known.merges:
        raise ConcurrentUpdate(reason="a visitor was absorbed or released meanwhile")
    ids = known.ids
    is_open = len(ids) > RELEASED_AT_ONCE
    own_ids = ids[:1] if is_open else ids
    where = {"scope_id": scope}
    visitor_count = change_rows(connection, _DELETE_VISITORS, where, "visitor_id", own_ids)
    change_rows(connection, "DELETE FROM merges", where, "absorbed_id", own_ids)
    imports.forget(connection, scope, own_ids, linked_user)
    link_count = 0
    if linked_user is not None:
        link_count = connection.execute(
            delete(user_links).where(
                user_links.c.scope_id == scope,
                user_links.c.user_id == linked_user,
                user_links.c.visitor_id == canonical_id,
            )
        ).rowcount
    if is_open:
        users: dict[VisitorKey, str] = {(scope, canonical_id): linked_user or ""}
        open_releases.add(connection, users, now_ms, is_deletion=True)
        visitor_count += len(ids) - 1
    return VisitorRemoval(
        tuple(ids), visitor_count, link_count, known.last_merge, linked_user, is_open
    )


def forget_absorbed(
    connection: Connection, scope: ScopeId, head: VisitorId, absorbed: Sequence[VisitorId]
) -> None:
    """Remove the rows of absorbed visitors that `forget` did not remove.

    An ID that has been sent again since then belongs to a new visitor, so it is kept. head: the
    removed visitor that had absorbed the others.
    """
    others = [own_id for own_id in absorbed if own_id != head]
    where = {"scope_id": scope, "canonical_id": head}
    change_rows(connection, _DELETE_VISITORS, where, "visitor_id", others)
    imports.forget(connection, scope, others)
    ended = open_releases.merges_between(connection, scope, head, others)
    open_releases.remove_merges(connection, ended)


def visitor_ids(connection: Connection, scope: ScopeId, visitor_id: str) -> list[VisitorId]:
    """Return all IDs of a visitor, canonical ID first. For an unknown ID, return only that ID."""
    canonical = _canonical(connection, scope, visitor_id, None)
    canonical_id = canonical[0] if canonical else VisitorId(visitor_id)
    rows = _merges_after(connection, scope, canonical_id, 0)
    return _distinct([canonical_id, *(absorbed_id for _, absorbed_id in rows)])


def lock_out_other_transactions(connection: Connection) -> None:
    """Wait for all transactions that have read visitors or user links, and block new ones.

    The timeout is short because all other readers wait too. SQLite needs no lock, because only one
    writer runs at a time and it reads inside its transaction.

    Raises `ConcurrentUpdate` after the timeout, for example during a backup: roll back and retry.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL lock_timeout = '200ms'"))
        connection.execute(text("LOCK TABLE visitors, user_links IN ACCESS EXCLUSIVE MODE"))


def _canonical(
    connection: Connection, scope: ScopeId, visitor_id: str | None, user_id: str | None
) -> tuple[VisitorId, str | None] | None:
    """Return the canonical visitor and its user; None if the user has no visitor."""
    if user_id is not None:
        linked = connection.execute(
            select(user_links.c.visitor_id).where(
                user_links.c.scope_id == scope, user_links.c.user_id == user_id
            )
        ).scalar()
        return None if linked is None else (VisitorId(linked), user_id)
    own_id = VisitorId(visitor_id or "")
    row = connection.execute(
        select(visitors.c.canonical_id, visitors.c.user_id).where(
            visitors.c.scope_id == scope, visitors.c.visitor_id == own_id
        )
    ).first()
    if row is None or row.canonical_id == own_id:
        return own_id, None if row is None else row.user_id
    if open_releases.deletion(connection, scope, row.canonical_id) is not None:
        return own_id, None
    return VisitorId(row.canonical_id), row.user_id


def _merges_after(
    connection: Connection, scope: ScopeId, head_id: str, after: int
) -> Sequence[tuple[int, str]]:
    """Return the merges into a visitor, oldest first, each as its number and the absorbed visitor.

    after: number of the last merge that the caller already knows; 0 returns all merges.
    """
    if open_releases.deletion(connection, scope, head_id) is not None:
        return []  # The absorbed visitors already count as released.
    c = merges.c
    rows = connection.execute(
        select(c.id, c.absorbed_id)
        .where(c.scope_id == scope, c.kept_id == head_id, c.id > after)
        .order_by(c.id)
    )
    return [(number, absorbed_id) for number, absorbed_id in rows]


def _count_merges(connection: Connection, scope: ScopeId, head_id: str) -> int:
    if open_releases.deletion(connection, scope, head_id) is not None:
        return 0
    count = select(func.count()).where(merges.c.scope_id == scope, merges.c.kept_id == head_id)
    return connection.execute(count).scalar_one()


def _distinct(visitor_ids: Sequence[str]) -> list[VisitorId]:
    return [VisitorId(visitor_id) for visitor_id in dict.fromkeys(visitor_ids)]
