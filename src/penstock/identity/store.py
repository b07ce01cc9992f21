"""Reads and writes visitors, user links and merges inside the intake's transaction."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec import json
from sqlalchemy import Connection, Table, bindparam, delete, insert, update

from penstock.base.errors import ConcurrentUpdate
from penstock.base.ids import ScopeId, VisitorId
from penstock.identity.model import Alias, Claim, IdentityChanges, TraitsChange, Trust
from penstock.identity.releases import store as open_releases
from penstock.identity.resolution import (
    IdentityResolver,
    Move,
    UserKey,
    UserLink,
    Visitor,
    VisitorKey,
)
from penstock.identity.traits import Statement, Statements, add_traits, current_traits
from penstock.metadb.rows import change_rows, insert_rows, select_rows, select_texts
from penstock.metadb.tables import merges, user_links, visitors

RELEASED_AT_ONCE = 1_000
"""Maximum number of visitors released in one transaction, because all other writes wait for it."""
_ABSORBED_COUNT = f"""(
    SELECT count(*) FROM (
        SELECT 1 FROM merges
        WHERE merges.scope_id = visitors.scope_id AND merges.kept_id = visitors.visitor_id
        LIMIT {RELEASED_AT_ONCE + 1}
    ) AS absorbed
)"""  # noqa: S608
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
    .where(*_IS_USER)
    .values(traits=bindparam("current"), trait_statements=bindparam("statements"))
)
_STATEMENTS = json.Decoder(dict[str, dict[str, Statement]])
_select_and_lock = partial(select_rows, lock=True)
RELEASE_VISITOR = (
    f"UPDATE visitors SET canonical_id = visitor_id, user_id = NULL, trust = {Trust.NONE.value}"  # noqa: S608
)


def load(connection: Connection, claims: Sequence[Claim]) -> IdentityResolver:
    """Read the visitors and user links that the claims refer to, and lock the rows that may change.

    Canonical visitors that a claim may link, absorb or release stay locked until the transaction
    ends. They are locked in the order of their IDs. If they have absorbed few visitors, the
    absorbed visitors are read too. The links of their users are read as well, because a link ends
    when another user gets the visitor.

    Most claims change nothing: the visitor already belongs to the claim's user, and no other claim
    may move it. No link is read for such claims.
    """
    scopes = {claim.scope_id for claim in claims}
    releases = open_releases.read(connection, scopes)
    stored = _read_visitors(
        connection,
        {(claim.scope_id, claim.visitor_id) for claim in claims if claim.visitor_id is not None},
    )
    known, moves = _apply_releases(stored, releases)
    unsettled = _unsettled(claims, known)
    links = _read_links(
        connection, {(claim.scope_id, claim.user_id) for claim in unsettled if claim.user_id}
    )
    moving = [claim for claim in unsettled if claim.visitor_id is not None]
    heads = _heads(moving, known, links) | {(move.scope_id, move.visitor_id) for move in moves}
    absorbed: dict[VisitorKey, set[VisitorId]] = {}
    sizes: dict[VisitorKey, int] = {}
    large: set[VisitorKey] = set()
    if heads:
        locked, _ = _apply_releases(_lock(connection, heads), releases)
        sent = {(claim.scope_id, claim.visitor_id or "") for claim in moving} & known.keys()
        if (
            _has_changed(connection, heads, locked, {key: stored[key] for key in sent}, links)
            or open_releases.read(connection, scopes) != releases
        ):
            raise ConcurrentUpdate(reason="another node changed a visitor")
        known |= locked
        strongest = max((claim.trust for claim in moving), default=Trust.NONE)
        releasable = {key: head for key, head in locked.items() if head.trust < strongest}
        sizes = _read_sizes(connection, heads)
        small, large = _split_by_budget(releasable, sizes)
        absorbed = _read_absorbed(connection, small)
        for (scope, own_id), visitor in known.items():
            if (scope, visitor.canonical_id) in large and visitor.canonical_id != own_id:
                absorbed.setdefault((scope, visitor.canonical_id), set()).add(VisitorId(own_id))
        owners = {(scope, head.user_id) for (scope, _), head in releasable.items() if head.user_id}
        links |= _read_links(connection, owners - links.keys())
        members = {(scope, own_id) for (scope, _), ids in absorbed.items() for own_id in ids}
        known |= _read_visitors(connection, members - known.keys())
    return IdentityResolver(
        visitors=known,
        links=links,
        absorbed=absorbed,
        sizes=sizes,
        large=large,
        open_releases=set(releases),
        changed={(move.scope_id, move.visitor_id) for move in moves},
        moves=moves,
    )


def _apply_releases(
    stored: Mapping[VisitorKey, Visitor], releases: Mapping[VisitorKey, str]
) -> tuple[dict[VisitorKey, Visitor], list[Move]]:
    """Apply open releases to visitors whose rows a worker has not changed yet.

    Returns all visitors in their current state, and the moves that are not yet written to their
    rows.

    releases: the user whose claim caused each release, by canonical visitor.
    """
    known, moves = dict(stored), list[Move]()
    for (scope, visitor_id), visitor in stored.items():
        head, own_id = visitor.canonical_id, VisitorId(visitor_id)
        if head != own_id and (scope, head) in releases:
            known[scope, own_id] = Visitor(own_id)
            moves.append(Move(scope, own_id, head, own_id, releases[scope, head]))
    return known, moves


def _split_by_budget(
    heads: Collection[VisitorKey], sizes: Mapping[VisitorKey, int]
) -> tuple[set[VisitorKey], set[VisitorKey]]:
    """Split visitors into two sets: those to release in this transaction, and those to leave for a
    worker.
    """
    small, large, budget = set[VisitorKey](), set[VisitorKey](), RELEASED_AT_ONCE
    for key in sorted(heads, key=lambda key: (sizes.get(key, 0), key)):
        budget -= sizes.get(key, 0)
        (small if budget >= 0 else large).add(key)
    return small, large


def _unsettled(claims: Sequence[Claim], known: Mapping[VisitorKey, Visitor]) -> list[Claim]:
    """Return claims that may move their visitor, or whose visitor another claim may move."""
    named = [claim for claim in claims if claim.user_id is not None]
    moving = {
        (claim.scope_id, claim.visitor_id)
        for claim in named
        if not _is_already_linked(claim, known)
    }
    return [claim for claim in named if (claim.scope_id, claim.visitor_id) in moving]


def _is_already_linked(claim: Claim, known: Mapping[VisitorKey, Visitor]) -> bool:
    """Whether the visitor is already linked to the claim's user, with at least the same trust."""
    visitor = None if claim.visitor_id is None else known.get((claim.scope_id, claim.visitor_id))
    return visitor is not None and visitor.user_id == claim.user_id and visitor.trust >= claim.trust


def _heads(
    claims: Sequence[Claim],
    known: Mapping[VisitorKey, Visitor],
    links: Mapping[UserKey, UserLink],
) -> set[VisitorKey]:
    """Return the canonical visitors that these claims refer to, by visitor ID or by user."""
    heads: set[VisitorKey] = set()
    for claim in claims:
        visitor = known.get((claim.scope_id, claim.visitor_id or ""))
        link = links.get((claim.scope_id, claim.user_id or ""))
        heads |= {(claim.scope_id, visitor.canonical_id)} if visitor else set()
        heads |= {(claim.scope_id, link.visitor_id)} if link else set()
    return heads


def _has_changed(
    connection: Connection,
    heads: Collection[VisitorKey],
    locked: Mapping[VisitorKey, Visitor],
    known: Mapping[VisitorKey, Visitor],
    links: Mapping[UserKey, UserLink],
) -> bool:
    """Whether another transaction changed the rows between reading and locking them."""
    homes = {(scope, link.visitor_id): user for (scope, user), link in links.items()}
    return (
        any(key not in locked or locked[key].canonical_id != key[1] for key in heads)
        or any(locked[key].user_id != homes[key] for key in heads if key in homes)
        or _read_visitors(connection, known) != known
    )


def _visitor_of(canonical_id: str, user_id: str | None, trust: int | None) -> Visitor:
    """Build a visitor from its row.

    trust: None for a visitor without a user, and for rows from before trust was stored.
    """
    if user_id is None:
        return Visitor(VisitorId(canonical_id))
    return Visitor(VisitorId(canonical_id), user_id, _TRUST[trust])


_TRUST: Mapping[int | None, Trust] = {trust.value: trust for trust in Trust} | {None: Trust.BACKEND}


_VISITOR = ("visitor_id", "canonical_id", "user_id", "trust")


def _select(
    connection: Connection,
    table: Table,
    columns: tuple[str, ...],
    keys: Collection[tuple[ScopeId, str]],
    select: Callable[..., Iterator[Sequence[Any]]] = select_texts,
) -> Iterator[tuple[tuple[ScopeId, str], list[Any]]]:
    """Yield rows: the key of each, and the values of all columns but the first.

    columns: the first one holds the IDs in the keys. select: reads the rows of one scope.
    """
    for scope, ids in _by_scope(keys):
        for own_id, *values in select(
            connection, table, columns, {"scope_id": scope}, columns[0], ids
        ):
            yield (scope, own_id), values


def _read_visitors(
    connection: Connection, keys: Collection[VisitorKey]
) -> dict[VisitorKey, Visitor]:
    rows = _select(connection, visitors, _VISITOR, keys)
    return {key: _visitor_of(*values) for key, values in rows}


def _read_links(connection: Connection, keys: Collection[UserKey]) -> dict[UserKey, UserLink]:
    rows = _select(connection, user_links, ("user_id", "visitor_id", "trust"), keys)
    return {key: UserLink(visitor_id, _TRUST[trust]) for key, (visitor_id, trust) in rows}


def _read_sizes(connection: Connection, keys: Collection[VisitorKey]) -> dict[VisitorKey, int]:
    """Count the visitors that each of these visitors has absorbed. Counting stops just above
    `RELEASED_AT_ONCE`.
    """
    rows = _select(connection, visitors, ("visitor_id", _ABSORBED_COUNT), keys)
    return {key: size for key, (size,) in rows}


def _read_absorbed(
    connection: Connection, keys: Collection[VisitorKey]
) -> dict[VisitorKey, set[VisitorId]]:
    absorbed: defaultdict[VisitorKey, set[VisitorId]] = defaultdict(set)
    rows = _select(connection, merges, ("kept_id", "absorbed_id"), keys, select_rows)
    for key, (absorbed_id,) in rows:
        if absorbed_id != key[1]:  # Equal IDs mark a release from another visitor.
            absorbed[key].add(VisitorId(absorbed_id))
    return dict(absorbed)


def _lock(connection: Connection, keys: Collection[VisitorKey]) -> dict[VisitorKey, Visitor]:
    """Read visitors and lock them until the transaction ends."""
    rows = _select(connection, visitors, _VISITOR, keys, _select_and_lock)
    return {key: _visitor_of(*values) for key, values in rows}


def _by_scope(keys: Collection[tuple[ScopeId, str]]) -> Iterator[tuple[ScopeId, list[str]]]:
    """Group IDs by scope. The order is fixed, so that all nodes take locks in the same order."""
    scopes: defaultdict[ScopeId, list[str]] = defaultdict(list)
    for scope, sent_id in sorted(keys):
        scopes[scope].append(sent_id)
    yield from scopes.items()


def save(connection: Connection, resolver: IdentityResolver, now_ms: int) -> IdentityChanges:
    """Write a resolver's changes, and return those that the warehouse needs."""
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
    traits = _save_traits(connection, resolver, now_ms)
    open_releases.add(connection, resolver.opened, now_ms, is_deletion=False)
    return IdentityChanges(save_moves(connection, resolver.moves, now_ms), traits)


class _UserTraits(NamedTuple):
    """The traits of a user who has a link, and the canonical visitor in the link."""

    visitor_id: VisitorId
    statements: Statements


def _save_traits(
    connection: Connection, resolver: IdentityResolver, now_ms: int
) -> list[TraitsChange]:
    """Write the traits of users, and return the visitors whose traits have changed.

    The links must be saved. Their rows stay locked, so that later changes of the same visitor get
    higher versions. A new link without traits changes nothing, so it is not read.
    """
    keys = sorted({*resolver.traits, *(resolver.changed_links & resolver.stored_links.keys())})
    before = _read_traits(connection, keys)
    after = dict(before)
    for key, calls in resolver.traits.items():
        for trust, stated in calls if key in after else ():
            statements = add_traits(after[key].statements, stated, trust, now_ms)
            after[key] = after[key]._replace(statements=statements)
    current = {key: current_traits(each.statements) for key, each in after.items()}
    updates = [
        {
            "scope": key[0],
            "user": key[1],
            "current": current[key],
            "statements": after[key].statements,
        }
        for key in keys
        if after.get(key) != before.get(key)
    ]
    if updates:
        connection.execute(_UPDATE_TRAITS, updates)
    changes: dict[VisitorKey, Mapping[str, Any]] = {}
    present: dict[VisitorKey, Mapping[str, Any]] = {}
    for key in keys:
        scope, stored, user = key[0], resolver.stored_links.get(key), after.get(key)
        has_moved = stored is not None and (user is None or user.visitor_id != stored.visitor_id)
        if stored is not None and has_moved:
            changes[scope, stored.visitor_id] = {}
        if user is not None and (
            has_moved or current[key] != current_traits(before[key].statements)
        ):
            present[scope, user.visitor_id] = current[key]
    changes |= present  # A visitor may have moved from one user to another.
    return [TraitsChange(scope, VisitorId(own), each) for (scope, own), each in changes.items()]


def _read_traits(connection: Connection, keys: Collection[UserKey]) -> dict[UserKey, _UserTraits]:
    """Return the traits of each user who has a link, and lock the links."""
    columns = ("user_id", "visitor_id", "CAST(trait_statements AS TEXT) AS statements")
    rows = _select(connection, user_links, columns, keys, _select_and_lock)
    return {
        key: _UserTraits(visitor_id, _STATEMENTS.decode(statements) if statements else {})
        for key, (visitor_id, statements) in rows
    }


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


def save_moves(connection: Connection, moves: Sequence[Move], now_ms: int) -> list[Alias]:
    """Replace each moved visitor's merge with a row that has a new number.

    Returns the aliases for the moves.
    """
    last = {(move.scope_id, move.visitor_id): move for move in moves}
    if not last:
        return []
    for scope, ids in _by_scope(last):
        change_rows(connection, "DELETE FROM merges", {"scope_id": scope}, "absorbed_id", ids)
    rows = [
        {
            "scope_id": move.scope_id,
            "absorbed_id": move.visitor_id,
            "kept_id": move.canonical_id,
            "user_id": move.user_id,
            "merged_at": now_ms,
        }
        for move in last.values()
    ]
    c = merges.c
    inserted = connection.execute(
        insert(merges).returning(c.scope_id, c.absorbed_id, c.kept_id, c.id), rows
    )
    return [Alias(*row) for row in inserted]


def release_some(connection: Connection, now_ms: int, number: int) -> list[Alias] | None:
    """Update the rows of up to `number` visitors in an open release.

    Returns their aliases; None if no release is open.
    """
    release = open_releases.lock_oldest(connection)
    if release is None:
        return None
    scope, head, user_id = release
    ended = open_releases.some_merges(connection, scope, head, number)
    if not ended:
        open_releases.close(connection, scope, head)
        return []
    locked = _lock(connection, {(scope, absorbed_id) for _, absorbed_id in ended})
    own_ids = [
        VisitorId(own_id) for (_, own_id), each in locked.items() if each.canonical_id == head
    ]
    moves = [Move(scope, own_id, head, own_id, user_id) for own_id in own_ids]
    change_rows(connection, RELEASE_VISITOR, {"scope_id": scope}, "visitor_id", own_ids)
    aliases = save_moves(connection, moves, now_ms)
    # This also removes merges of visitors that others have absorbed in the meantime.
    open_releases.remove_merges(connection, [merge_id for merge_id, _ in ended])
    return aliases
