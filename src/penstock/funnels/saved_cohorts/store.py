"""Reads and writes saved cohorts, inside the caller's transaction."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Select, and_, delete, func, select, tuple_, update

from penstock.base.chunks import chunks
from penstock.base.ids import WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.funnels.saved_cohorts.model import ListedVisitor, Member
from penstock.metadb.named import change_named
from penstock.metadb.pages import listing_of
from penstock.metadb.rows import insert_rows, select_rows
from penstock.metadb.tables import cohort_visitors, saved_cohorts, visitors

_COLUMNS = ("cohort_id", "scope_id", "visitor_id", "visitor_key")


def add_members(db: Connection, cohort_id: str, members: Sequence[Member]) -> int:
    """Add the visitors that have not been deleted to a list. Returns their number.

    A visitor's row is locked until the transaction ends. So a deletion either has removed the row
    already, or will find the visitor in the list.
    """
    by_scope: dict[str, dict[str, int]] = {}
    for member in members:
        by_scope.setdefault(member.scope_id, {})[member.visitor_id] = member.key
    rows = []
    for scope_id, keys in sorted(by_scope.items()):
        stored = select_rows(
            db,
            visitors,
            ("visitor_id",),
            {"scope_id": scope_id},
            "visitor_id",
            sorted(keys),
            lock=True,
        )
        # PostgreSQL returns the row of the last ID several times.
        for visitor_id in sorted({visitor_id for (visitor_id,) in stored}):
            rows.append((cohort_id, scope_id, visitor_id, _signed(keys[visitor_id])))
    insert_rows(db, cohort_visitors, _COLUMNS, rows)
    return len(rows)


def mark_complete(db: Connection, cohort_id: str) -> None:
    """Mark a list as complete, and save its number of visitors."""
    count = select(func.count()).where(cohort_visitors.c.cohort_id == cohort_id)
    changed = {"visitors": db.execute(count).scalar_one(), "is_complete": True}
    change_named(db, saved_cohorts, cohort_id, changed)


def abandoned(db: Connection, workspace_id: WorkspaceId, before_ms: int) -> Sequence[str]:
    """Return the IDs of cohorts whose saving or deletion did not finish, for example because the
    process was killed.
    """
    c = saved_cohorts.c
    unfinished = (c.workspace_id == workspace_id, ~c.is_complete, c.created_at < before_ms)
    return db.execute(select(c.id).where(*unfinished)).scalars().all()


def remove_members(db: Connection, cohort_id: str, limit: int) -> int:
    """Remove some visitors from a list. Returns their number, at most `limit`."""
    c = cohort_visitors.c
    first = select(c.scope_id, c.visitor_id).where(c.cohort_id == cohort_id).limit(limit)
    of_list = and_(c.cohort_id == cohort_id, tuple_(c.scope_id, c.visitor_id).in_(first))
    return db.execute(delete(cohort_visitors).where(of_list)).rowcount


def member_keys(db: Connection, cohort_id: str) -> list[int]:
    """Return the keys of a list's visitors."""
    keys = select(cohort_visitors.c.visitor_key).where(cohort_visitors.c.cohort_id == cohort_id)
    return [key % 2**64 for key in db.execute(keys).scalars()]


def members_page(db: Connection, cohort_id: str, page: Page) -> Listing[ListedVisitor]:
    """Return a page of a list's canonical visitors, ordered by ID."""
    return listing_of(db, _members(cohort_id), page, lambda row: ListedVisitor(*row))


def members(db: Connection, cohort_id: str) -> list[ListedVisitor]:
    """Return all canonical visitors of a list, ordered by ID."""
    return [ListedVisitor(*row) for row in db.execute(_members(cohort_id))]


def _members(cohort_id: str) -> Select[*tuple[Any, ...]]:
    """Select the canonical visitors of a list, with the users that are linked to them."""
    saved, canonical = visitors.alias("saved"), visitors.alias("canonical")
    c = cohort_visitors.c
    canonical_id = func.coalesce(saved.c.canonical_id, c.visitor_id)
    return (
        select(c.scope_id, canonical_id.label("visitor_id"), canonical.c.user_id)
        .outerjoin(saved, and_(saved.c.scope_id == c.scope_id, saved.c.visitor_id == c.visitor_id))
        .outerjoin(
            canonical,
            and_(canonical.c.scope_id == c.scope_id, canonical.c.visitor_id == canonical_id),
        )
        .where(c.cohort_id == cohort_id)
        .distinct()
        .order_by("visitor_id", c.scope_id)
    )


def users_of(db: Connection, named: Sequence[tuple[str, str]]) -> Iterator[ListedVisitor]:
    """Return visitors with their users. named: scope and ID of each visitor.

    Visitors that were deleted are left out.
    """
    by_scope: dict[str, list[str]] = {}
    for scope_id, visitor_id in named:
        by_scope.setdefault(scope_id, []).append(visitor_id)
    for scope_id, visitor_ids in by_scope.items():
        columns, scope = ("visitor_id", "user_id"), {"scope_id": scope_id}
        rows = select_rows(db, visitors, columns, scope, "visitor_id", visitor_ids)
        users: dict[str, str | None] = {row[0]: row[1] for row in rows}
        for visitor_id in visitor_ids:
            if visitor_id in users:
                yield ListedVisitor(scope_id, visitor_id, users[visitor_id])


def forget_members(db: Connection, scope_id: str, visitor_ids: Sequence[str]) -> int:
    """Remove visitors from all lists. Returns the number of removed entries."""
    c, removed = cohort_visitors.c, 0
    for share in chunks(visitor_ids):
        condition = and_(c.scope_id == scope_id, c.visitor_id.in_(share))
        counts = db.execute(
            select(c.cohort_id, func.count()).where(condition).group_by(c.cohort_id)
        ).all()
        if not counts:
            continue
        db.execute(delete(cohort_visitors).where(condition))
        for cohort_id, count in counts:
            db.execute(
                update(saved_cohorts)
                .where(saved_cohorts.c.id == cohort_id)
                .values(visitors=saved_cohorts.c.visitors - count)
            )
            removed += count
    return removed


def cohorts_of(db: Connection, scope_id: str, visitor_ids: Sequence[str]) -> list[tuple[str, str]]:
    """Return the ID and name of each complete list that contains any of the visitors."""
    c = cohort_visitors.c
    named: dict[str, str] = {}
    for share in chunks(visitor_ids):
        rows = db.execute(
            select(saved_cohorts.c.id, saved_cohorts.c.name)
            .join(cohort_visitors, c.cohort_id == saved_cohorts.c.id)
            .where(c.scope_id == scope_id, c.visitor_id.in_(share), saved_cohorts.c.is_complete)
        )
        named.update((row.id, row.name) for row in rows)
    return sorted(named.items())


def _signed(key: int) -> int:
    """Return an unsigned 64-bit number as a signed one."""
    return key - 2**64 if key >= 2**63 else key
