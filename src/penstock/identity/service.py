"""Identity resolution inside the caller's transaction."""

from collections.abc import Sequence

from sqlalchemy import Connection

from penstock.base.ids import ScopeId, VisitorId, new_id
from penstock.identity import store
from penstock.identity.model import Alias, AllIds, Claim, Resolution, VisitorRemoval
from penstock.identity.releases import store as open_releases
from penstock.identity.removal import store as removal

__all__ = [
    "all_ids",
    "any_open_release",
    "close_release",
    "forget",
    "forget_absorbed",
    "ids_of",
    "release_some",
    "resolve",
]

all_ids = removal.all_ids
any_open_release = open_releases.any_by_claim
close_release = open_releases.close
forget_absorbed = removal.forget_absorbed
ids_of = removal.ids_of
release_some = store.release_some


def resolve(
    connection: Connection, claims: Sequence[Claim], now_ms: int
) -> tuple[list[Resolution], list[Alias]]:
    """Resolve claims in their order and write the links and merges they make.

    connection: in a write transaction, which the caller commits. Aliases: one for each visitor that
    was absorbed or released; the caller ships them to the warehouse. `ConcurrentUpdate`, or
    `StoreConflict` error, when another node was faster: roll back and resolve again.
    """
    resolver = store.load(connection, claims)
    resolutions = [
        resolver.resolve(claim, lambda: VisitorId(new_id("vis", now_ms))) for claim in claims
    ]
    return resolutions, store.save(connection, resolver, now_ms)


def forget(
    connection: Connection,
    scope_id: ScopeId,
    known: AllIds | None,
    now_ms: int,
    *,
    visitor_id: str | None,
    user_id: str | None,
) -> VisitorRemoval:
    """Remove a visitor with its IDs, user link, traits and merges. Name it by any ID or its user.

    known: its IDs, read before the transaction. connection: in a write transaction. Events
    committed earlier were resolved to the removed rows; events committed later create a new
    visitor, on every node. `ConcurrentUpdate` when the visitor has changed, and on PostgreSQL when
    the lock takes too long: roll back and try again.
    """
    removal.lock_out_other_transactions(connection)
    return removal.forget(
        connection, scope_id, known, now_ms, visitor_id=visitor_id, user_id=user_id
    )
