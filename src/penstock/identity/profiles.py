"""What is known of single visitors, for people to read. Nothing here takes part in resolving claims."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from penstock.base.ids import ScopeId, VisitorId
from penstock.metadb.tables import merges, user_links, visitors


class KnownUser(NamedTuple):
    """The user that a visitor is linked to. traits: what identify last said; None: nothing was said."""

    id: str
    traits: Mapping[str, Any] | None
    since_ms: int


class Absorbed(NamedTuple):
    """A visitor that was merged into another, for this user."""

    visitor_id: VisitorId
    user_id: str
    merged_at_ms: int


class Profile(NamedTuple):
    """A canonical visitor. absorbed: oldest merge first. created_at_ms: when its own ID was first heard of."""

    scope_id: ScopeId
    visitor_id: VisitorId
    created_at_ms: int
    user: KnownUser | None
    absorbed: tuple[Absorbed, ...]

    @property
    def ids(self) -> list[VisitorId]:
        """All IDs that events of this visitor were stored with."""
        return [self.visitor_id, *(one.visitor_id for one in self.absorbed)]


def of_visitor(db: Connection, scope_ids: Collection[ScopeId], visitor_id: str) -> list[Profile]:
    """The canonical visitors that an ID, maybe an absorbed one, stands for: at most one in each identity scope."""
    known = select(visitors.c.scope_id, visitors.c.canonical_id)
    rows = db.execute(known.where(visitors.c.scope_id.in_(scope_ids), visitors.c.visitor_id == visitor_id)).all()
    return _profiles(db, rows)


def of_user(db: Connection, scope_ids: Collection[ScopeId], user_id: str) -> list[Profile]:
    """The canonical visitors that a user is linked to: at most one in each identity scope."""
    known = select(user_links.c.scope_id, user_links.c.visitor_id)
    rows = db.execute(known.where(user_links.c.scope_id.in_(scope_ids), user_links.c.user_id == user_id)).all()
    return _profiles(db, rows)


def users_of(db: Connection, scope_id: ScopeId, visitor_ids: Collection[str]) -> dict[str, str | None]:
    """Those canonical visitors that there are, with their users."""
    rows = db.execute(
        select(visitors.c.visitor_id, visitors.c.user_id).where(visitors.c.scope_id == scope_id, visitors.c.visitor_id.in_(visitor_ids))
    )
    return {row.visitor_id: row.user_id for row in rows}


def _profiles(db: Connection, canonical: Collection[Any]) -> list[Profile]:
    found = (_profile(db, ScopeId(scope_id), VisitorId(visitor_id)) for scope_id, visitor_id in canonical)
    return [profile for profile in found if profile is not None]


def _profile(db: Connection, scope: ScopeId, visitor_id: VisitorId) -> Profile | None:
    row = db.execute(
        select(visitors.c.created_at, user_links.c.user_id, user_links.c.traits, user_links.c.created_at.label("linked_at"))
        .outerjoin(user_links, (user_links.c.scope_id == visitors.c.scope_id) & (user_links.c.user_id == visitors.c.user_id))
        .where(visitors.c.scope_id == scope, visitors.c.visitor_id == visitor_id)
    ).first()
    if row is None:
        return None
    of_visitor = (merges.c.scope_id == scope, merges.c.kept_id == visitor_id)
    absorbed = db.execute(select(merges.c.absorbed_id, merges.c.user_id, merges.c.merged_at).where(*of_visitor).order_by(merges.c.id))
    return Profile(
        scope_id=scope,
        visitor_id=visitor_id,
        created_at_ms=row.created_at,
        user=None if row.user_id is None else KnownUser(row.user_id, row.traits, row.linked_at),
        absorbed=tuple(Absorbed(VisitorId(one.absorbed_id), one.user_id, one.merged_at) for one in absorbed),
    )
