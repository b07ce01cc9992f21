"""Identity resolution inside the caller's transaction."""

from collections.abc import Sequence

from sqlalchemy import Connection

from penstock.base.ids import ScopeId, VisitorId, new_id
from penstock.identity import store
from penstock.identity.model import (
    AllIds,
    Claim,
    IdentityChanges,
    Resolution,
    VisitorRemoval,
)
from penstock.identity.releases import store as open_releases
from penstock.identity.removal import store as removal

__all__ = [
    "all_ids",
    "any_open_release",
    "close_release",
    "forget",
    "forget_absorbed",
    "release_some",
    "resolve",
    "visitor_ids",
]

all_ids = removal.all_ids
any_open_release = open_releases.any_by_claim
close_release = open_releases.close
forget_absorbed = removal.forget_absorbed
visitor_ids = removal.visitor_ids
release_some = store.release_some


def resolve(
    connection: Connection, claims: Sequence[Claim], now_ms: int
) -> tuple[list[Resolution], IdentityChanges]:
    """Resolve claims in order, and write the links, merges and traits that they cause.

    Returns the resolutions, and the changes for the caller to ship to the warehouse.

    connection: has an open write transaction, which the caller commits.

    Raises `ConcurrentUpdate` or `StoreConflict` if another node made a conflicting change; the
    caller must roll back and retry.
    """
    keys = [
        # An enum's own hash is slow.
        (claim.scope_id, claim.visitor_id, claim.user_id, int(claim.trust))
        if claim.traits is None
        else index
        for index, claim in enumerate(claims)
    ]
    resolver = store.load(connection, list(dict(zip(keys, claims, strict=True)).values()))
    resolutions = resolver.resolve_all(claims, keys, lambda: VisitorId(new_id("vis", now_ms)))
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
    """Remove a visitor with its IDs, user link, traits and merges.

    Events that arrive after the commit create a new visitor, on every node.

    connection: has an open write transaction.
    known: the visitor's IDs, read before the transaction.
    visitor_id, user_id: any ID of the visitor, or its user; exactly one is set.

    Raises `ConcurrentUpdate` if the visitor has changed or, on PostgreSQL, if the lock takes too
    long; the caller must roll back and retry.
    """
    removal.lock_out_other_transactions(connection)
    return removal.forget(
        connection, scope_id, known, now_ms, visitor_id=visitor_id, user_id=user_id
    )
