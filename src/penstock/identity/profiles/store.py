"""Reads profiles from the rows of visitors, users and merges."""

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import convert
from sqlalchemy import Column, Connection, func, select

from penstock.base.clock import iso
from penstock.base.ids import ScopeId, VisitorId
from penstock.base.unicode_text import composed, spellings
from penstock.identity.imports.store import traits_of_user
from penstock.identity.profiles.model import AbsorbedVisitor, Identity, LinkedUser, Profile
from penstock.identity.releases import store as open_releases
from penstock.identity.traits import Statements, other_values, trait_times
from penstock.metadb.tables import merges, user_links, visitors

_PAGE_VISITORS = 5_000
"""Number of visitors read at once, with and without a user."""


def identities_page(
    db: Connection, scope_id: ScopeId, after: str
) -> tuple[list[Identity], str | None]:
    """Return the next visitors of a scope that belong to a user or were merged, by ID.

    after: the ID where the previous page ended; empty for the first page. Also returns the ID where
    this page ends; None at the end of the scope.
    """
    v = visitors.c
    page = (
        select(v.visitor_id, v.canonical_id, v.user_id)
        .where(v.scope_id == scope_id, v.visitor_id > after)
        .order_by(v.visitor_id)
        .limit(_PAGE_VISITORS)
        .subquery()
    )
    merged_at = (
        select(func.max(merges.c.merged_at))
        .where(merges.c.scope_id == scope_id, merges.c.absorbed_id == page.c.visitor_id)
        .scalar_subquery()
    )
    rows = db.execute(
        select(
            page,
            merged_at.label("merged_at"),
            user_links.c.traits,
            user_links.c.trait_statements,
        )
        .outerjoin(
            user_links,
            (user_links.c.scope_id == scope_id)
            & (user_links.c.user_id == page.c.user_id)
            & (user_links.c.visitor_id == page.c.visitor_id),
        )
        .order_by(page.c.visitor_id)
    ).all()
    released = open_releases.read(db, [scope_id])
    identities = [
        Identity(
            row.visitor_id,
            row.canonical_id,
            row.user_id,
            None if row.canonical_id == row.visitor_id else row.merged_at,
            row.traits,
            _times(row.trait_statements),
        )
        for row in rows
        if row.user_id is not None or row.canonical_id != row.visitor_id
        if (scope_id, row.canonical_id) not in released
    ]
    return identities, rows[-1].visitor_id if len(rows) == _PAGE_VISITORS else None


def _times(stored: Any) -> dict[str, str] | None:
    """Return the times of a user's traits; None if none were ever sent."""
    if stored is None:
        return None
    return {name: iso(at_ms) for name, at_ms in trait_times(convert(stored, Statements)).items()}


def canonical_by_visitor_id(
    db: Connection, scope_ids: Collection[ScopeId], visitor_id: str
) -> list[tuple[ScopeId, VisitorId]]:
    """Return the canonical visitor of an ID, in each identity scope that contains the ID."""
    rows = db.execute(
        select(visitors.c.scope_id, visitors.c.visitor_id, visitors.c.canonical_id).where(
            visitors.c.scope_id.in_(scope_ids), visitors.c.visitor_id.in_(spellings(visitor_id))
        )
    )
    return [
        key
        for scope, known_id, head in rows
        if (key := _current_key(db, ScopeId(scope), known_id, VisitorId(head)))
    ]


def _current_key(
    db: Connection, scope: ScopeId, visitor_id: str, head: VisitorId
) -> tuple[ScopeId, VisitorId] | None:
    """Return the visitor that an ID currently counts as, even if the ID's row is outdated.

    Returns None if the visitor was deleted.
    head: the canonical visitor stored in the ID's row.
    """
    if head == visitor_id:
        return scope, head
    match open_releases.deletion(db, scope, head):
        case None:
            return scope, head
        case True:
            return None
        case False:
            return scope, VisitorId(visitor_id)


def canonical_by_user_id(
    db: Connection, scope_ids: Collection[ScopeId], user_id: str
) -> list[tuple[ScopeId, VisitorId]]:
    """Return the canonical visitor linked to a user, in each identity scope with this user."""
    rows = db.execute(
        select(user_links.c.scope_id, user_links.c.visitor_id).where(
            user_links.c.scope_id.in_(scope_ids), user_links.c.user_id.in_(spellings(user_id))
        )
    )
    return [(ScopeId(scope_id), VisitorId(visitor_id)) for scope_id, visitor_id in rows]


def stored_spelling(db: Connection, scope: ScopeId, column: Column[str], sent_id: str) -> str:
    """Return an ID in NFC, unless history has it as it was sent.

    column: `visitors.visitor_id` or `user_links.user_id`.
    """
    is_known = select(column).where(column.table.c.scope_id == scope, column == sent_id)
    return sent_id if db.execute(is_known.limit(1)).first() else composed(sent_id)


def users_by_visitor(
    db: Connection, scope_id: ScopeId, visitor_ids: Collection[str]
) -> dict[str, tuple[str, Mapping[str, Any]] | None]:
    """Return the user of each visitor that exists, with the user's traits, by any of its IDs.

    None for a visitor without a user.
    """
    head = visitors.alias()
    rows = db.execute(
        select(visitors.c.visitor_id, visitors.c.canonical_id, head.c.user_id, user_links.c.traits)
        .outerjoin(
            head,
            (head.c.scope_id == scope_id) & (head.c.visitor_id == visitors.c.canonical_id),
        )
        .outerjoin(
            user_links,
            (user_links.c.scope_id == scope_id) & (user_links.c.user_id == head.c.user_id),
        )
        .where(visitors.c.scope_id == scope_id, visitors.c.visitor_id.in_(visitor_ids))
    ).all()
    released = open_releases.read(db, [scope_id])
    return {
        row.visitor_id: None
        if row.user_id is None
        or (row.canonical_id != row.visitor_id and (scope_id, row.canonical_id) in released)
        else (row.user_id, row.traits or {})
        for row in rows
    }


def profile(db: Connection, scope: ScopeId, visitor_id: VisitorId) -> Profile | None:
    """Return the profile of a canonical visitor; None if the visitor does not exist."""
    row = db.execute(
        select(
            visitors.c.created_at,
            user_links.c.user_id,
            user_links.c.traits,
            user_links.c.trait_statements,
            user_links.c.created_at.label("linked_at"),
        )
        .outerjoin(
            user_links,
            (user_links.c.scope_id == visitors.c.scope_id)
            & (user_links.c.user_id == visitors.c.user_id)
            & (visitors.c.canonical_id == visitors.c.visitor_id),
        )
        .where(visitors.c.scope_id == scope, visitors.c.visitor_id == visitor_id)
    ).first()
    if row is None:
        return None
    absorbed = (
        db.execute(
            select(merges.c.absorbed_id, merges.c.user_id, merges.c.merged_at)
            .where(
                merges.c.scope_id == scope,
                merges.c.kept_id == visitor_id,
                merges.c.absorbed_id != visitor_id,  # Equal IDs mark a release.
            )
            .order_by(merges.c.id)
        ).all()
        if open_releases.deletion(db, scope, visitor_id) is None
        else ()
    )
    return Profile(
        scope_id=scope,
        visitor_id=visitor_id,
        created_at_ms=row.created_at,
        user=None
        if row.user_id is None
        else LinkedUser(
            row.user_id,
            row.traits,
            row.linked_at,
            list(
                other_values(
                    convert(row.trait_statements or {}, Statements),
                    traits_of_user(db, scope, row.user_id),
                )
            ),
        ),
        absorbed=tuple(
            AbsorbedVisitor(VisitorId(merge.absorbed_id), merge.user_id, merge.merged_at)
            for merge in absorbed
        ),
    )
