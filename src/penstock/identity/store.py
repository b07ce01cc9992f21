"""Identity's rows, read and written inside the intake's transaction."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, insert, select, text, update

from penstock.base.chunks import chunks
from penstock.base.errors import ConcurrentUpdate
from penstock.base.ids import ScopeId, VisitorId
from penstock.identity.model import Alias, Claim, VisitorRemoval
from penstock.identity.resolution import IdentityResolver, UserKey, Visitor, VisitorKey
from penstock.metadb.rows import insert_rows, select_texts
from penstock.metadb.tables import merges, user_links, visitors

_SELECT_FOR_UPDATE = (
    select(visitors.c.visitor_id, visitors.c.canonical_id, visitors.c.user_id)
    .where(
        visitors.c.scope_id == bindparam("scope"),
        visitors.c.visitor_id.in_(bindparam("ids", expanding=True)),
    )
    .order_by(visitors.c.visitor_id)
    .with_for_update()
)
_UPDATE_VISITOR = (
    update(visitors)
    .where(visitors.c.scope_id == bindparam("scope"), visitors.c.visitor_id == bindparam("id"))
    .values(canonical_id=bindparam("canonical"), user_id=bindparam("user"))
)
_UPDATE_TRAITS = (
    update(user_links)
    .where(user_links.c.scope_id == bindparam("scope"), user_links.c.user_id == bindparam("user"))
    .values(traits=bindparam("new_traits"))
)


def load(connection: Connection, claims: Sequence[Claim]) -> IdentityResolver:
    """The visitors and user links that the claims refer to.

    Visitors that a claim may link or absorb are locked, in the order of their IDs, until the
    transaction ends. When a visitor already belongs to the claim's user, the link is not read: it
    changes nothing, and most claims are like this.
    """
    known = _read_visitors(
        connection,
        {(claim.scope_id, claim.visitor_id) for claim in claims if claim.visitor_id is not None},
    )
    links = _read_links(
        connection,
        {
            (claim.scope_id, claim.user_id)
            for claim in claims
            if claim.user_id is not None and not _is_bound(claim, known)
        },
    )
    undecided = {
        key
        for claim in claims
        if claim.user_id is not None and claim.visitor_id is not None
        if (key := (claim.scope_id, claim.visitor_id)) in known and known[key].user_id is None
    }
    if undecided and _lock(connection, undecided) != {key: known[key] for key in undecided}:
        raise ConcurrentUpdate(reason="another node changed a visitor")
    return IdentityResolver(visitors=known, links=links)


def _is_bound(claim: Claim, known: Mapping[VisitorKey, Visitor]) -> bool:
    """Whether the visitor already belongs to the claim's user, which never changes."""
    visitor = None if claim.visitor_id is None else known.get((claim.scope_id, claim.visitor_id))
    return visitor is not None and visitor.user_id == claim.user_id


def _read_visitors(
    connection: Connection, keys: Collection[VisitorKey]
) -> dict[VisitorKey, Visitor]:
    columns = ("visitor_id", "canonical_id", "user_id")
    return {
        (scope, visitor_id): Visitor(canonical_id, user_id)
        for scope, ids in _by_scope(keys)
        for visitor_id, canonical_id, user_id in select_texts(
            connection, visitors, columns, {"scope_id": scope}, "visitor_id", ids
        )
    }


def _read_links(connection: Connection, keys: Collection[UserKey]) -> dict[UserKey, VisitorId]:
    return {
        (scope, user_id): visitor_id
        for scope, ids in _by_scope(keys)
        for user_id, visitor_id in select_texts(
            connection, user_links, ("user_id", "visitor_id"), {"scope_id": scope}, "user_id", ids
        )
    }


def _lock(connection: Connection, keys: Collection[VisitorKey]) -> dict[VisitorKey, Visitor]:
    """The current visitors, locked until the transaction ends.

    SQLite has one writer at a time and needs no row locks.
    """
    return {
        (scope, visitor_id): Visitor(canonical_id, user_id)
        for scope, ids in _by_scope(keys)
        for visitor_id, canonical_id, user_id in connection.execute(
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
    """Write the changes of a resolver. Returns the aliases of its merges."""
    created = [(*key, *resolver.visitors[key], now_ms) for key in sorted(resolver.created)]
    insert_rows(
        connection,
        visitors,
        ("scope_id", "visitor_id", "canonical_id", "user_id", "created_at"),
        created,
    )
    if resolver.changed:
        changed = [
            {
                "scope": scope,
                "id": visitor_id,
                "canonical": visitor.canonical_id,
                "user": visitor.user_id,
            }
            for scope, visitor_id in sorted(resolver.changed)
            for visitor in [resolver.visitors[scope, visitor_id]]
        ]
        connection.execute(_UPDATE_VISITOR, changed)
    linked = [(*key, resolver.links[key], now_ms) for key in sorted(resolver.linked)]
    insert_rows(connection, user_links, ("scope_id", "user_id", "visitor_id", "created_at"), linked)
    if resolver.traits:
        connection.execute(
            _UPDATE_TRAITS,
            [
                {"scope": scope, "user": user_id, "new_traits": dict(traits)}
                for (scope, user_id), traits in sorted(resolver.traits.items())
            ],
        )
    return [_insert_merge(connection, resolver, n, now_ms) for n in range(len(resolver.merges))]


def _insert_merge(
    connection: Connection, resolver: IdentityResolver, number: int, now_ms: int
) -> Alias:
    merge = resolver.merges[number]
    version = connection.execute(
        insert(merges).values(**merge._asdict(), merged_at=now_ms).returning(merges.c.id)
    ).scalar_one()
    return Alias(merge.scope_id, merge.absorbed_id, merge.kept_id, version)


def lock_out_other_transactions(connection: Connection) -> None:
    """Wait for every transaction that has read visitors or user links, and block new ones.

    `ConcurrentUpdate` when that takes long, for example during a backup: roll back and try again.
    The time-out is short because all other readers wait meanwhile. SQLite has one writer at a time,
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
