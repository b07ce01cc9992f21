"""Identity resolution inside the caller's transaction."""

from collections.abc import Sequence

from sqlalchemy import Connection

from penstock.base.ids import VisitorId, new_id
from penstock.identity import store
from penstock.identity.imports import store as imports
from penstock.identity.imports import undoing
from penstock.identity.model import Claim, IdentityChanges, Resolution
from penstock.identity.releases import store as open_releases
from penstock.identity.removal import store as removal

all_ids = removal.all_ids
any_open_release = open_releases.any_by_claim
close_release = open_releases.close
forget = removal.forget
forget_absorbed = removal.forget_absorbed
visitor_ids = removal.visitor_ids
undo_some = undoing.undo_some
undone_parts = undoing.PARTS
stated_counts = imports.counts
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
    before = dict(resolver.visitors)
    resolutions = resolver.resolve_all(claims, keys, lambda: VisitorId(new_id("vis", now_ms)))
    changes = store.save(connection, resolver, now_ms)
    imports.note(connection, claims, resolutions, resolver, before, now_ms)
    return resolutions, changes
