"""Profiles of visitors, for people to read. Resolving claims does not use them."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from penstock.base.ids import ScopeId, VisitorId
from penstock.metadb.tables import merges, user_links, visitors


class LinkedUser(NamedTuple):
    """The user of a visitor. traits: from the last identify call that sent some."""

    id: str
    traits: Mapping[str, Any] | None
    since_ms: int


class AbsorbedVisitor(NamedTuple):
    """A visitor that was merged into another. user_id: the user who made it so."""

    visitor_id: VisitorId
    user_id: str
    merged_at_ms: int


class Profile(NamedTuple):
    """A canonical visitor.

    absorbed: oldest merge first. created_at_ms: when its own ID was first received.
    """

    scope_id: ScopeId
    visitor_id: VisitorId
    created_at_ms: int
    user: LinkedUser | None
    absorbed: tuple[AbsorbedVisitor, ...]

    @property
    def ids(self) -> list[VisitorId]:
        """All visitor IDs that this visitor's events may carry in the warehouse."""
        return [self.visitor_id, *(visitor.visitor_id for visitor in self.absorbed)]


def find_by_visitor_id(
    db: Connection, scope_ids: Collection[ScopeId], visitor_id: str
) -> list[Profile]:
    """The canonical visitors of a visitor ID, absorbed or not: at most one per identity scope."""
    canonical_ids = select(visitors.c.scope_id, visitors.c.canonical_id).where(
        visitors.c.scope_id.in_(scope_ids), visitors.c.visitor_id == visitor_id
    )
    return _profiles(db, db.execute(canonical_ids).all())


def find_by_user_id(db: Connection, scope_ids: Collection[ScopeId], user_id: str) -> list[Profile]:
    """The canonical visitors linked to a user: at most one per identity scope."""
    canonical_ids = select(user_links.c.scope_id, user_links.c.visitor_id).where(
        user_links.c.scope_id.in_(scope_ids), user_links.c.user_id == user_id
    )
    return _profiles(db, db.execute(canonical_ids).all())


def users_by_visitor(
    db: Connection, scope_id: ScopeId, visitor_ids: Collection[str]
) -> dict[str, str | None]:
    """The user of each of these canonical visitors that exists; None without a user."""
    rows = db.execute(
        select(visitors.c.visitor_id, visitors.c.user_id).where(
            visitors.c.scope_id == scope_id, visitors.c.visitor_id.in_(visitor_ids)
        )
    )
    return {row.visitor_id: row.user_id for row in rows}


def _profiles(db: Connection, canonical_ids: Collection[Any]) -> list[Profile]:
    profiles = (
        _profile(db, ScopeId(scope_id), VisitorId(visitor_id))
        for scope_id, visitor_id in canonical_ids
    )
    return [profile for profile in profiles if profile is not None]


def _profile(db: Connection, scope: ScopeId, visitor_id: VisitorId) -> Profile | None:
    row = db.execute(
        select(
            visitors.c.created_at,
            user_links.c.user_id,
            user_links.c.traits,
            user_links.c.created_at.label("linked_at"),
        )
        .outerjoin(
            user_links,
            (user_links.c.scope_id == visitors.c.scope_id)
            & (user_links.c.user_id == visitors.c.user_id),
        )
        .where(visitors.c.scope_id == scope, visitors.c.visitor_id == visitor_id)
    ).first()
    if row is None:
        return None
    absorbed = db.execute(
        select(merges.c.absorbed_id, merges.c.user_id, merges.c.merged_at)
        .where(
            merges.c.scope_id == scope,
            merges.c.kept_id == visitor_id,
            merges.c.absorbed_id != visitor_id,  # it was released from another visitor
        )
        .order_by(merges.c.id)
    )
    return Profile(
        scope_id=scope,
        visitor_id=visitor_id,
        created_at_ms=row.created_at,
        user=None if row.user_id is None else LinkedUser(row.user_id, row.traits, row.linked_at),
        absorbed=tuple(
            AbsorbedVisitor(VisitorId(merge.absorbed_id), merge.user_id, merge.merged_at)
            for merge in absorbed
        ),
    )
