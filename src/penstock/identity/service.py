"""Resolving claims, as part of the transaction that stores what they came with."""

from collections.abc import Sequence

from sqlalchemy import Connection

from penstock.base.ids import ScopeId, VisitorId, new_id
from penstock.identity import store
from penstock.identity.model import Alias, Claim, Forgotten, Resolution
from penstock.identity.store import Contended

__all__ = ["Contended", "forget", "ids_of", "resolve"]


def resolve(connection: Connection, claims: Sequence[Claim], now_ms: int) -> tuple[list[Resolution], list[Alias]]:
    """Resolve claims in their order and write what they bind. connection: in a write transaction, which the caller commits.

    Aliases: one for each visitor that was absorbed; the caller ships them to the warehouse. `Contended`, or the driver's integrity error,
    when another node was faster: roll back and resolve again.
    """
    ledger = store.load(connection, claims)
    resolutions = [ledger.resolve(claim, lambda: VisitorId(new_id("vis", now_ms))) for claim in claims]
    return resolutions, store.save(connection, ledger, now_ms)


def forget(connection: Connection, scope_id: ScopeId, *, visitor_id: str | None, user_id: str | None) -> Forgotten:
    """Remove a visitor, named by any of its IDs or by its user: the IDs, the user's link with what is known of the user, the merges.

    connection: in a write transaction. An event of theirs that is committed before it was resolved to what is removed; one that is
    committed after it makes a new visitor, on whatever node. `OperationalError` on PostgreSQL when others were faster: roll back and try
    again.
    """
    store.hold_all(connection)
    return store.forget(connection, scope_id, visitor_id, user_id)


def ids_of(connection: Connection, scope_id: ScopeId, visitor_id: str) -> list[VisitorId]:
    """All IDs of a visitor, the canonical one first. visitor_id: any of them, or one that is not known and stands for itself."""
    return store.ids_of(connection, scope_id, visitor_id)
