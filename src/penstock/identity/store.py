"""Identity's rows, read and written inside the intake's transaction."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, insert, select, text, update

from penstock.base.ids import ScopeId, VisitorId
from penstock.identity.ledger import Ledger, UserKey, Visitor, VisitorKey
from penstock.identity.model import Alias, Claim, Forgotten
from penstock.metadb.rows import insert_rows, select_texts
from penstock.metadb.tables import merges, user_links, visitors

_LOCKED = (
    select(visitors.c.visitor_id, visitors.c.canonical_id, visitors.c.user_id)
    .where(visitors.c.scope_id == bindparam("scope"), visitors.c.visitor_id.in_(bindparam("ids", expanding=True)))
    .order_by(visitors.c.visitor_id)
    .with_for_update()
)
_CHANGE = (
    update(visitors)
    .where(visitors.c.scope_id == bindparam("scope"), visitors.c.visitor_id == bindparam("id"))
    .values(canonical_id=bindparam("canonical"), user_id=bindparam("user"))
)
_TRAITS = (
    update(user_links)
    .where(user_links.c.scope_id == bindparam("scope"), user_links.c.user_id == bindparam("user"))
    .values(traits=bindparam("told"))
)

_CHUNK = 500


class Contended(Exception):
    """Another node changed a visitor while we decided about it. Roll back and try again."""


def load(connection: Connection, claims: Sequence[Claim]) -> Ledger:
    """What the claims touch. Visitors that a claim may link or absorb are locked, in the order of their IDs, until the transaction ends.

    The link of a user whose visitor has that user already is not asked for: it changes nothing, and most claims are such.
    """
    known = _read_visitors(connection, {(claim.scope_id, claim.visitor_id) for claim in claims if claim.visitor_id is not None})
    links = _read_links(
        connection, {(claim.scope_id, claim.user_id) for claim in claims if claim.user_id is not None and not _is_bound(claim, known)}
    )
    undecided = {
        key
        for claim in claims
        if claim.user_id is not None and claim.visitor_id is not None
        if (key := (claim.scope_id, claim.visitor_id)) in known and known[key].user_id is None
    }
    if undecided and _lock(connection, undecided) != {key: known[key] for key in undecided}:
        raise Contended
    return Ledger(visitors=known, links=links)


def _is_bound(claim: Claim, known: Mapping[VisitorKey, Visitor]) -> bool:
    """Whether the visitor belongs to the claim's user, which never changes."""
    visitor = None if claim.visitor_id is None else known.get((claim.scope_id, claim.visitor_id))
    return visitor is not None and visitor.user_id == claim.user_id


def _read_visitors(connection: Connection, keys: Collection[VisitorKey]) -> dict[VisitorKey, Visitor]:
    columns = ("visitor_id", "canonical_id", "user_id")
    return {
        (scope, visitor_id): Visitor(canonical_id, user_id)
        for scope, ids in _by_scope(keys)
        for visitor_id, canonical_id, user_id in select_texts(connection, visitors, columns, {"scope_id": scope}, "visitor_id", ids)
    }


def _read_links(connection: Connection, keys: Collection[UserKey]) -> dict[UserKey, VisitorId]:
    return {
        (scope, user_id): visitor_id
        for scope, ids in _by_scope(keys)
        for user_id, visitor_id in select_texts(connection, user_links, ("user_id", "visitor_id"), {"scope_id": scope}, "user_id", ids)
    }


def _lock(connection: Connection, keys: Collection[VisitorKey]) -> dict[VisitorKey, Visitor]:
    """The visitors as they are now, and stay until the transaction ends. SQLite has one writer at a time and needs no row locks."""
    return {
        (scope, visitor_id): Visitor(canonical_id, user_id)
        for scope, ids in _by_scope(keys)
        for visitor_id, canonical_id, user_id in connection.execute(_LOCKED, {"scope": scope, "ids": ids})
    }


def _by_scope(keys: Collection[tuple[ScopeId, str]]) -> Iterator[tuple[ScopeId, list[str]]]:
    """The IDs of one scope at a time, sorted: all nodes take locks in one order."""
    scopes: defaultdict[ScopeId, list[str]] = defaultdict(list)
    for scope, sent_id in sorted(keys):
        scopes[scope].append(sent_id)
    yield from scopes.items()


def save(connection: Connection, ledger: Ledger, now_ms: int) -> list[Alias]:
    """Write what the ledger's claims changed; the aliases that its merges made."""
    created = [(*key, *ledger.visitors[key], now_ms) for key in sorted(ledger.created)]
    insert_rows(connection, visitors, ("scope_id", "visitor_id", "canonical_id", "user_id", "created_at"), created)
    if ledger.changed:
        changed = [
            {"scope": scope, "id": visitor_id, "canonical": visitor.canonical_id, "user": visitor.user_id}
            for scope, visitor_id in sorted(ledger.changed)
            for visitor in [ledger.visitors[scope, visitor_id]]
        ]
        connection.execute(_CHANGE, changed)
    linked = [(*key, ledger.links[key], now_ms) for key in sorted(ledger.linked)]
    insert_rows(connection, user_links, ("scope_id", "user_id", "visitor_id", "created_at"), linked)
    if ledger.traits:
        connection.execute(
            _TRAITS, [{"scope": scope, "user": user_id, "told": dict(told)} for (scope, user_id), told in sorted(ledger.traits.items())]
        )
    return [_log(connection, ledger, number, now_ms) for number in range(len(ledger.merges))]


def _log(connection: Connection, ledger: Ledger, number: int, now_ms: int) -> Alias:
    merge = ledger.merges[number]
    version = connection.execute(insert(merges).values(**merge._asdict(), merged_at=now_ms).returning(merges.c.id)).scalar_one()
    return Alias(merge.scope_id, merge.absorbed_id, merge.kept_id, version)


def hold_all(connection: Connection) -> None:
    """Wait until no transaction is under way that has looked at visitors or user links, and let none look until this one ends.

    `OperationalError` when that takes long, as during a backup: roll back and try again. Whoever looks meanwhile has to wait as well, so
    the wait is short. SQLite has one writer at a time, and it looks inside its transaction.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL lock_timeout = '200ms'"))
        connection.execute(text("LOCK TABLE visitors, user_links IN ACCESS EXCLUSIVE MODE"))


def forget(connection: Connection, scope: ScopeId, visitor_id: str | None, user_id: str | None) -> Forgotten:
    """Remove a visitor with all it absorbed, and its user's link. Exactly one of visitor_id and user_id is set."""
    canonical_id = visitor_id if user_id is None else connection.execute(_link(scope, user_id)).scalar()
    if canonical_id is None:
        return Forgotten()
    row = connection.execute(_visitor(scope, canonical_id)).first()
    if row is not None and row.canonical_id != canonical_id:
        canonical_id = row.canonical_id
        row = connection.execute(_visitor(scope, canonical_id)).first()
    of_visitor = (merges.c.scope_id == scope, merges.c.kept_id == canonical_id)
    absorbed = connection.execute(select(merges.c.id, merges.c.absorbed_id).where(*of_visitor).order_by(merges.c.id)).all()
    ids = [VisitorId(some_id) for some_id in dict.fromkeys([canonical_id, *(absorbed_id for _, absorbed_id in absorbed)])]
    visitor_count = sum(
        connection.execute(
            delete(visitors).where(visitors.c.scope_id == scope, visitors.c.visitor_id.in_(ids[start : start + _CHUNK]))
        ).rowcount
        for start in range(0, len(ids), _CHUNK)
    )
    linked = user_id if user_id is not None else row.user_id if row is not None else None
    link_count = 0
    if linked is not None:
        link_count = connection.execute(
            delete(user_links).where(
                user_links.c.scope_id == scope, user_links.c.user_id == linked, user_links.c.visitor_id == canonical_id
            )
        ).rowcount
    connection.execute(delete(merges).where(*of_visitor))
    return Forgotten(tuple(ids), visitor_count, link_count, absorbed[-1].id if absorbed else 0)


def ids_of(connection: Connection, scope: ScopeId, visitor_id: str) -> list[VisitorId]:
    """All IDs of a visitor, the canonical one first. Of one that is not known: the ID itself."""
    row = connection.execute(_visitor(scope, visitor_id)).first()
    canonical_id = visitor_id if row is None else row.canonical_id
    absorbed = select(merges.c.absorbed_id).where(merges.c.scope_id == scope, merges.c.kept_id == canonical_id)
    return [VisitorId(some_id) for some_id in dict.fromkeys([canonical_id, *connection.execute(absorbed.order_by(merges.c.id)).scalars()])]


def _link(scope: ScopeId, user_id: str) -> Select[Any]:
    return select(user_links.c.visitor_id).where(user_links.c.scope_id == scope, user_links.c.user_id == user_id)


def _visitor(scope: ScopeId, visitor_id: str) -> Select[Any]:
    return select(visitors.c.canonical_id, visitors.c.user_id).where(visitors.c.scope_id == scope, visitors.c.visitor_id == visitor_id)
