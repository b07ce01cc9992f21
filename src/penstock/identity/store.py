"""Identity's rows, read and written inside the intake's transaction."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Connection,
    Select,
    bindparam,
    delete,
    func,
    insert,
    null,
    select,
    text,
    update,
)

from penstock.base.chunks import chunks
from penstock.base.errors import ConcurrentUpdate
from penstock.base.ids import ScopeId, VisitorId
from penstock.identity.model import Alias, Claim, Trust, VisitorRemoval
from penstock.identity.resolution import (
    IdentityResolver,
    Move,
    UserKey,
    UserLink,
    Visitor,
    VisitorKey,
)
from penstock.metadb.rows import insert_rows, select_texts
from penstock.metadb.tables import merges, user_links, visitors

_SELECT_FOR_UPDATE = (
    select(visitors.c.visitor_id, visitors.c.canonical_id, visitors.c.user_id, visitors.c.trust)
    .where(
        visitors.c.scope_id == bindparam("scope"),
        visitors.c.visitor_id.in_(bindparam("ids", expanding=True)),
    )
    .order_by(visitors.c.visitor_id)
    .with_for_update()
)
_SELECT_ABSORBED = select(merges.c.kept_id, merges.c.absorbed_id).where(
    merges.c.scope_id == bindparam("scope"),
    merges.c.kept_id.in_(bindparam("ids", expanding=True)),
    merges.c.kept_id != merges.c.absorbed_id,
)
_UPDATE_VISITOR = (
    update(visitors)
    .where(visitors.c.scope_id == bindparam("scope"), visitors.c.visitor_id == bindparam("id"))
    .values(
        canonical_id=bindparam("canonical"), user_id=bindparam("user"), trust=bindparam("level")
    )
)
_IS_USER = (user_links.c.scope_id == bindparam("scope"), user_links.c.user_id == bindparam("user"))
_UPDATE_LINK = (
    update(user_links)
    .where(*_IS_USER)
    .values(visitor_id=bindparam("visitor"), trust=bindparam("level"))
)
_DELETE_LINK = delete(user_links).where(*_IS_USER)
_UPDATE_TRAITS = (
    update(user_links)
    .where(
        *_IS_USER,
        user_links.c.traits.is_(null())
        | (func.coalesce(user_links.c.traits_trust, Trust.BACKEND.value) <= bindparam("level")),
    )
    .values(traits=bindparam("new_traits"), traits_trust=bindparam("level"))
)
_DELETE_MERGE = delete(merges).where(
    merges.c.scope_id == bindparam("scope"),
    merges.c.kept_id == bindparam("canonical"),
    merges.c.absorbed_id == bindparam("absorbed"),
)


def load(connection: Connection, claims: Sequence[Claim]) -> IdentityResolver:
    """The visitors and user links that the claims refer to.

    Canonical visitors that a claim may link, absorb or release are locked, in the order of their
    IDs, until the transaction ends; with them all that they absorbed, and the links of their users,
    which end when another user gets the visitor. When a visitor already
    belongs to the claim's user, the link is not read: it changes nothing, and most claims are like
    this.
    """
    known = _read_visitors(
        connection,
        {(claim.scope_id, claim.visitor_id) for claim in claims if claim.visitor_id is not None},
    )
    unsettled = [
        claim
        for claim in claims
        if claim.user_id is not None and not _is_already_linked(claim, known)
    ]
    links = _read_links(
        connection, {(claim.scope_id, claim.user_id) for claim in unsettled if claim.user_id}
    )
    moving = [claim for claim in unsettled if claim.visitor_id is not None]
    heads = _heads(moving, known, links)
    absorbed: dict[VisitorKey, set[VisitorId]] = {}
    if heads:
        locked = _lock(connection, heads)
        sent = {(claim.scope_id, claim.visitor_id or "") for claim in moving} & known.keys()
        if _changed(connection, heads, locked, {key: known[key] for key in sent}, links):
            raise ConcurrentUpdate(reason="another node changed a visitor")
        known |= locked
        strongest = max(claim.trust for claim in moving)
        releasable = {key: head for key, head in locked.items() if head.trust < strongest}
        absorbed = _read_absorbed(connection, releasable)
        owners = {(scope, head.user_id) for (scope, _), head in releasable.items() if head.user_id}
        links |= _read_links(connection, owners - links.keys())
        members = {(scope, own_id) for (scope, _), ids in absorbed.items() for own_id in ids}
        known |= _read_visitors(connection, members - known.keys())
    return IdentityResolver(visitors=known, links=links, absorbed=absorbed)


def _is_already_linked(claim: Claim, known: Mapping[VisitorKey, Visitor]) -> bool:
    """Whether the visitor already belongs to the claim's user, with as much trust."""
    visitor = None if claim.visitor_id is None else known.get((claim.scope_id, claim.visitor_id))
    return visitor is not None and visitor.user_id == claim.user_id and visitor.trust >= claim.trust


def _heads(
    claims: Sequence[Claim],
    known: Mapping[VisitorKey, Visitor],
    links: Mapping[UserKey, UserLink],
) -> set[VisitorKey]:
    """The canonical visitors that claims with both IDs concern."""
    heads: set[VisitorKey] = set()
    for claim in claims:
        visitor = known.get((claim.scope_id, claim.visitor_id or ""))
        link = links.get((claim.scope_id, claim.user_id or ""))
        heads |= {(claim.scope_id, visitor.canonical_id)} if visitor else set()
        heads |= {(claim.scope_id, link.visitor_id)} if link else set()
    return heads


def _changed(
    connection: Connection,
    heads: Collection[VisitorKey],
    locked: Mapping[VisitorKey, Visitor],
    known: Mapping[VisitorKey, Visitor],
    links: Mapping[UserKey, UserLink],
) -> bool:
    """Whether another transaction changed the rows between their reading and locking."""
    homes = {(scope, link.visitor_id): user for (scope, user), link in links.items()}
    return (
        any(key not in locked or locked[key].canonical_id != key[1] for key in heads)
        or any(locked[key].user_id != homes[key] for key in heads if key in homes)
        or _read_visitors(connection, known) != known
    )


def _visitor_of(canonical_id: str, user_id: str | None, trust: int | None) -> Visitor:
    """trust: None for a visitor without a user, and for one from before trust was stored."""
    if user_id is None:
        return Visitor(VisitorId(canonical_id))
    return Visitor(VisitorId(canonical_id), user_id, _trust_of(trust))


_TRUST: Mapping[int | None, Trust] = {trust.value: trust for trust in Trust} | {None: Trust.BACKEND}


def _trust_of(stored: int | None) -> Trust:
    return _TRUST[stored]


def _read_visitors(
    connection: Connection, keys: Collection[VisitorKey]
) -> dict[VisitorKey, Visitor]:
    columns = ("visitor_id", "canonical_id", "user_id", "trust")
    return {
        (scope, visitor_id): _visitor_of(canonical_id, user_id, trust)
        for scope, ids in _by_scope(keys)
        for visitor_id, canonical_id, user_id, trust in select_texts(
            connection, visitors, columns, {"scope_id": scope}, "visitor_id", ids
        )
    }


def _read_links(connection: Connection, keys: Collection[UserKey]) -> dict[UserKey, UserLink]:
    columns = ("user_id", "visitor_id", "trust")
    return {
        (scope, user_id): UserLink(visitor_id, _trust_of(trust))
        for scope, ids in _by_scope(keys)
        for user_id, visitor_id, trust in select_texts(
            connection, user_links, columns, {"scope_id": scope}, "user_id", ids
        )
    }


def _read_absorbed(
    connection: Connection, keys: Collection[VisitorKey]
) -> dict[VisitorKey, set[VisitorId]]:
    absorbed: defaultdict[VisitorKey, set[VisitorId]] = defaultdict(set)
    for scope, ids in _by_scope(keys):
        for canonical_id, absorbed_id in connection.execute(
            _SELECT_ABSORBED, {"scope": scope, "ids": ids}
        ):
            absorbed[scope, canonical_id].add(VisitorId(absorbed_id))
    return dict(absorbed)


def _lock(connection: Connection, keys: Collection[VisitorKey]) -> dict[VisitorKey, Visitor]:
    """The current visitors, locked until the transaction ends.

    SQLite has one writer at a time and needs no row locks.
    """
    return {
        (scope, visitor_id): _visitor_of(canonical_id, user_id, trust)
        for scope, ids in _by_scope(keys)
        for visitor_id, canonical_id, user_id, trust in connection.execute(
            _SELECT_FOR_UPDATE, {"scope": scope, "ids": ids}
        )
    }


def _by_scope(keys: Collection[tuple[ScopeId, str]]) -> Iterator[tuple[ScopeId, list[str]]]:
    """The IDs of each scope, sorted, so that all nodes take locks in the same order."""
    scopes: defaultdict[ScopeId, list[str]] = defaultdict(list)
    for scope, sent_id in sorted(keys):
        scopes[scope].append(sent_id)
    yield from scopes.items()


def save(connection: Connection, resolver: IdentityResolver, now_ms: int) -> list[Alias]:
    """Write the changes of a resolver. Returns the aliases of its moves."""
    created = [
        (*key, visitor.canonical_id, visitor.user_id, visitor.trust.value, now_ms)
        for key in sorted(resolver.created)
        for visitor in [resolver.visitors[key]]
    ]
    columns = ("scope_id", "visitor_id", "canonical_id", "user_id", "trust", "created_at")
    insert_rows(connection, visitors, columns, created)
    if resolver.changed:
        changed = [
            {
                "scope": scope,
                "id": visitor_id,
                "canonical": visitor.canonical_id,
                "user": visitor.user_id,
                "level": visitor.trust.value,
            }
            for scope, visitor_id in sorted(resolver.changed)
            for visitor in [resolver.visitors[scope, visitor_id]]
        ]
        connection.execute(_UPDATE_VISITOR, changed)
    _save_links(connection, resolver, now_ms)
    if resolver.traits:
        connection.execute(
            _UPDATE_TRAITS,
            [
                {"scope": scope, "user": user_id, "new_traits": dict(traits), "level": trust.value}
                for (scope, user_id), (trust, traits) in sorted(resolver.traits.items())
            ],
        )
    return [_save_move(connection, move, now_ms) for move in resolver.moves]


def _save_links(connection: Connection, resolver: IdentityResolver, now_ms: int) -> None:
    linked, changed, ended = [], [], []
    for scope, user_id in sorted(resolver.changed_links):
        link = resolver.links.get((scope, user_id))
        if (scope, user_id) not in resolver.stored_links:
            if link is not None:
                linked.append((scope, user_id, link.visitor_id, link.trust.value, now_ms))
        elif link is None:
            ended.append({"scope": scope, "user": user_id})
        else:
            values = {"visitor": link.visitor_id, "level": link.trust.value}
            changed.append({"scope": scope, "user": user_id, **values})
    insert_rows(
        connection,
        user_links,
        ("scope_id", "user_id", "visitor_id", "trust", "created_at"),
        linked,
    )
    for statement, rows in ((_UPDATE_LINK, changed), (_DELETE_LINK, ended)):
        if rows:
            connection.execute(statement, rows)


def _save_move(connection: Connection, move: Move, now_ms: int) -> Alias:
    """Replace the merge that the move ends, by a row with a new number."""
    before = {"scope": move.scope_id, "canonical": move.before_id, "absorbed": move.visitor_id}
    connection.execute(_DELETE_MERGE, before)
    version = connection.execute(
        insert(merges)
        .values(
            scope_id=move.scope_id,
            absorbed_id=move.visitor_id,
            kept_id=move.canonical_id,
            user_id=move.user_id,
            merged_at=now_ms,
        )
        .returning(merges.c.id)
    ).scalar_one()
    return Alias(move.scope_id, move.visitor_id, move.canonical_id, version)


def lock_out_other_transactions(connection: Connection) -> None:
    """Wait for every transaction that has read visitors or user links, and block new ones.

    `ConcurrentUpdate` when that takes long, for example during a backup: roll back and try again.
    The time-out is short because all other readers wait for it. SQLite has one writer at a time,
    which reads inside its transaction, so it needs no lock.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL lock_timeout = '200ms'"))
        connection.execute(text("LOCK TABLE visitors, user_links IN ACCESS EXCLUSIVE MODE"))


def forget(
    connection: Connection, scope: ScopeId, visitor_id: str | None, user_id: str | None
) -> VisitorRemoval:
    """Remove a visitor, all visitors it absorbed, and its user link.

    Exactly one of visitor_id and user_id is set.
    """
    canonical_id = (
        visitor_id if user_id is None else connection.execute(_link(scope, user_id)).scalar()
    )
    if canonical_id is None:
        return VisitorRemoval()
    row = connection.execute(_visitor(scope, canonical_id)).first()
    if row is not None and row.canonical_id != canonical_id:
        canonical_id = row.canonical_id
        row = connection.execute(_visitor(scope, canonical_id)).first()
    of_visitor = (merges.c.scope_id == scope, merges.c.kept_id == canonical_id)
    absorbed = connection.execute(
        select(merges.c.id, merges.c.absorbed_id).where(*of_visitor).order_by(merges.c.id)
    ).all()
    ids = _distinct([canonical_id, *(absorbed_id for _, absorbed_id in absorbed)])
    visitor_count = sum(
        connection.execute(
            delete(visitors).where(visitors.c.scope_id == scope, visitors.c.visitor_id.in_(chunk))
        ).rowcount
        for chunk in chunks(ids)
    )
    linked_user = user_id if user_id is not None else row.user_id if row is not None else None
    link_count = 0
    if linked_user is not None:
        link_count = connection.execute(
            delete(user_links).where(
                user_links.c.scope_id == scope,
                user_links.c.user_id == linked_user,
                user_links.c.visitor_id == canonical_id,
            )
        ).rowcount
    connection.execute(delete(merges).where(*of_visitor))
    last_merge = absorbed[-1].id if absorbed else 0
    return VisitorRemoval(tuple(ids), visitor_count, link_count, last_merge, linked_user)


def ids_of(connection: Connection, scope: ScopeId, visitor_id: str) -> list[VisitorId]:
    """All IDs of a visitor, the canonical one first; of an unknown ID, the ID itself."""
    row = connection.execute(_visitor(scope, visitor_id)).first()
    canonical_id = visitor_id if row is None else row.canonical_id
    absorbed = select(merges.c.absorbed_id).where(
        merges.c.scope_id == scope, merges.c.kept_id == canonical_id
    )
    return _distinct([canonical_id, *connection.execute(absorbed.order_by(merges.c.id)).scalars()])


def _distinct(visitor_ids: Sequence[str]) -> list[VisitorId]:
    return [VisitorId(visitor_id) for visitor_id in dict.fromkeys(visitor_ids)]


def _link(scope: ScopeId, user_id: str) -> Select[Any]:
    return select(user_links.c.visitor_id).where(
        user_links.c.scope_id == scope, user_links.c.user_id == user_id
    )


def _visitor(scope: ScopeId, visitor_id: str) -> Select[Any]:
    return select(visitors.c.canonical_id, visitors.c.user_id).where(
        visitors.c.scope_id == scope, visitors.c.visitor_id == visitor_id
    )
