"""Identity resolution inside the caller's transaction."""

from collections.abc import Sequence

from sqlalchemy import Connection

from penstock.base.ids import ScopeId, VisitorId, new_id
from penstock.identity import store
from penstock.identity.model import Alias, Claim, Resolution, VisitorRemoval

__all__ = ["forget", "ids_of", "resolve"]


def resolve(
    connection: Connection, claims: Sequence[Claim], now_ms: int
) -> tuple[list[Resolution], list[Alias]]:
    """Resolve claims in their order and write the links and merges they make.

    connection: in a write transaction, which the caller commits. Aliases: one for each absorbed
    visitor; the caller ships them to the warehouse. `ConcurrentUpdate`, or `StoreConflict`
    error, when another node was faster: roll back and resolve again.
    """
    resolver = store.load(connection, claims)
    resolutions = [
        resolver.resolve(claim, lambda: VisitorId(new_id("vis", now_ms))) for claim in claims
    ]
    return resolutions, store.save(connection, resolver, now_ms)


def forget(
    connection: Connection, scope_id: ScopeId, *, visitor_id: str | None, user_id: str | None
) -> VisitorRemoval:
    """Remove a visitor with its IDs, user link, traits and merges. Name it by any ID or its user.

    connection: in a write transaction. Events committed earlier were resolved to the removed rows;
    events committed later create a new visitor, on every node. `ConcurrentUpdate` on PostgreSQL
    when the lock takes too long: roll back and try again.
    """
    store.lock_out_other_transactions(connection)
    return store.forget(connection, scope_id, visitor_id, user_id)


def ids_of(connection: Connection, scope_id: ScopeId, visitor_id: str) -> list[VisitorId]:
    """All IDs of a visitor, the canonical one first. visitor_id: any of them, or an unknown ID."""
    return store.ids_of(connection, scope_id, visitor_id)
