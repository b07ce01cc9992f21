"""Resolving claims, as part of the transaction that stores what they came with."""

from collections.abc import Sequence

from sqlalchemy import Connection

from penstock.base.ids import VisitorId, new_id
from penstock.identity import store
from penstock.identity.model import Alias, Claim, Resolution
from penstock.identity.store import Contended

__all__ = ["Contended", "resolve"]


def resolve(connection: Connection, claims: Sequence[Claim], now_ms: int) -> tuple[list[Resolution], list[Alias]]:
    """Resolve claims in their order and write what they bind. connection: in a write transaction, which the caller commits.

    Aliases: one for each visitor that was absorbed; the caller ships them to the warehouse. `Contended`, or the driver's integrity error,
    when another node was faster: roll back and resolve again.
    """
    ledger = store.load(connection, claims)
    resolutions = [ledger.resolve(claim, lambda: VisitorId(new_id("vis", now_ms))) for claim in claims]
    return resolutions, store.save(connection, ledger, now_ms)
