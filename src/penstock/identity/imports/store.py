"""Records what only imports state about visitors and users.

A row says that an import stated something that nobody but imports has stated. It is written when an
import is the first to state it, or when another import has stated it before. As soon as anything
else states the same, its rows go, because undoing an import then changes nothing about it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import convert, json
from sqlalchemy import Connection, and_, bindparam, delete, exists, func, or_, select, update

from penstock.base.ids import ImportId, ScopeId, VisitorId
from penstock.identity.imports.model import StatedCounts, Statement
from penstock.identity.model import Claim, Resolution, is_placeholder
from penstock.identity.resolution import IdentityResolver, UserKey, Visitor, VisitorKey
from penstock.identity.store import RELEASE_VISITOR
from penstock.identity.traits import Statement as TraitStatement
from penstock.identity.traits import Statements, add_traits, that_may_hold
from penstock.metadb.rows import change_rows, insert_rows, select_rows
from penstock.metadb.tables import import_identities, import_traits, merges, user_links, visitors

_ANY = select(import_identities.c.import_id).limit(1)
_COLUMNS = ("import_id", "scope_id", "visitor_id", "user_id")
_TRAIT_COLUMNS = ("import_id", "scope_id", "user_id", "statements")
_REMOVE = delete(import_identities).where(
    import_identities.c.scope_id == bindparam("scope"),
    import_identities.c.visitor_id == bindparam("visitor"),
    import_identities.c.user_id == bindparam("user"),
)
_TRAITS = json.Decoder(dict[str, dict[str, TraitStatement]])
_S, _L = import_identities.c, user_links.c


def note(
    connection: Connection,
    claims: Sequence[Claim],
    resolutions: Sequence[Resolution],
    resolver: IdentityResolver,
    before: Mapping[VisitorKey, Visitor],
    now_ms: int,
) -> None:
    """Record what the claims of imports state, and forget what other claims state too.

    resolver: has resolved the claims. before: the visitors as they were before that.
    """
    _note_traits(connection, claims, now_ms)
    named = {(claim.import_id, claim.scope_id, claim.visitor_id, claim.user_id) for claim in claims}
    has_imports = any(import_id for import_id, *_ in named)
    if not has_imports and connection.execute(_ANY).first() is None:
        return
    others = {
        statement
        for import_id, scope, visitor_id, user_id in named
        if import_id is None
        for statement in _statements(scope, visitor_id, user_id)
    }
    known = importers(connection, others)
    remove(connection, known)
    if has_imports:
        _note_imports(connection, claims, resolutions, resolver, before, others)


def _note_imports(
    connection: Connection,
    claims: Sequence[Claim],
    resolutions: Sequence[Resolution],
    resolver: IdentityResolver,
    before: Mapping[VisitorKey, Visitor],
    others: Collection[Statement],
) -> None:
    """Record what the claims of imports state. others: what the other claims state."""
    named = {  # Most lines repeat the visitor and the user of another line.
        (claim.import_id, claim.scope_id, claim.visitor_id, claim.user_id, resolution.visitor_id)
        for claim, resolution in zip(claims, resolutions, strict=True)
    }
    stated = {
        (import_id, statement)
        for import_id, scope, visitor_id, user_id, home in named
        if import_id is not None
        for statement in _statements(scope, visitor_id, user_id, home)
        if statement not in others
    }
    new = {statement for _, statement in stated if _is_new(statement, resolver, before)}
    known = importers(connection, {statement for _, statement in stated} - new)
    rows = [
        (import_id, *statement)
        for import_id, statement in sorted(stated)
        if statement in new or (statement in known and import_id not in known[statement])
    ]
    insert_rows(connection, import_identities, _COLUMNS, rows)


def _statements(
    scope: ScopeId, visitor_id: str | None, user_id: str | None, home: str = ""
) -> Iterator[Statement]:
    """Yield what a claim with these IDs states.

    home: the visitor that a claim without a visitor resolves to; '' leaves it out.
    """
    visitor_id = "" if visitor_id is None or is_placeholder(visitor_id) else visitor_id
    user_id = "" if user_id is None or is_placeholder(user_id) else user_id
    if user_id:
        yield Statement(scope, "", user_id)
        if visitor_id:
            yield Statement(scope, visitor_id, user_id)
        visitor_id = visitor_id or home
    if visitor_id:
        yield Statement(scope, visitor_id, "")


def _is_new(
    statement: Statement, resolver: IdentityResolver, before: Mapping[VisitorKey, Visitor]
) -> bool:
    """Whether the resolver's claims were the first to state this."""
    scope, visitor_id, user_id = statement
    if not user_id:
        return (scope, visitor_id) in resolver.created
    if not visitor_id:
        key = (scope, user_id)
        return key in resolver.links and key not in resolver.stored_links
    earlier, now = before.get((scope, visitor_id)), resolver.visitors.get((scope, visitor_id))
    was_linked = earlier is not None and earlier.user_id == user_id
    return not was_linked and now is not None and now.user_id == user_id


def importers(
    connection: Connection, statements: Collection[Statement]
) -> dict[Statement, set[ImportId]]:
    """Return the imports that stated each of these; only what nobody else has stated."""
    named = defaultdict[tuple[ScopeId, bool], set[str]](set)
    for scope, visitor_id, user_id in statements:
        named[scope, bool(visitor_id)].add(visitor_id or user_id)
    imports = defaultdict[Statement, set[ImportId]](set)
    for (scope, is_visitor), ids in sorted(named.items()):
        where = {"scope_id": scope} if is_visitor else {"scope_id": scope, "visitor_id": ""}
        column = "visitor_id" if is_visitor else "user_id"
        rows = select_rows(
            connection,
            import_identities,
            ("import_id", "visitor_id", "user_id"),
            where,
            column,
            sorted(ids),
        )
        for import_id, visitor_id, user_id in rows:
            statement = Statement(scope, visitor_id, user_id)
            if statement in statements:
                imports[statement].add(ImportId(import_id))
    return dict(imports)


def add(connection: Connection, import_id: ImportId, statement: Statement) -> None:
    insert_rows(connection, import_identities, _COLUMNS, [(import_id, *statement)])


def remove(
    connection: Connection, statements: Collection[Statement], import_id: ImportId | None = None
) -> None:
    """Remove the rows of statements, of all imports or of one."""
    statement = _REMOVE if import_id is None else _REMOVE.where(_S.import_id == import_id)
    rows = [
        {"scope": scope, "visitor": visitor_id, "user": user_id}
        for scope, visitor_id, user_id in statements
    ]
    if rows:
        connection.execute(statement, rows)


def forget(
    connection: Connection,
    scope: ScopeId,
    visitor_ids: Sequence[VisitorId],
    user_id: str | None = None,
) -> None:
    """Remove all rows about deleted visitors and their user."""
    where = {"scope_id": scope}
    change_rows(connection, "DELETE FROM import_identities", where, "visitor_id", visitor_ids)
    if user_id is not None:
        no_visitor = {"scope_id": scope, "visitor_id": ""}
        change_rows(connection, "DELETE FROM import_identities", no_visitor, "user_id", [user_id])
        change_rows(connection, "DELETE FROM import_traits", where, "user_id", [user_id])


def some_statements(
    connection: Connection, import_id: ImportId, kind: str, number: int
) -> list[Statement]:
    """Return some of an import's rows.

    kind: `merge` for visitors that were merged into the visitor of their user, `link` for visitors
    and their users, `user` or `visitor`.
    """
    query = select(_S.scope_id, _S.visitor_id, _S.user_id)
    query = query.where(_S.import_id == import_id, *_KINDS[kind])
    if kind == "merge":
        query = query.join(visitors, _IS_VISITOR).where(
            visitors.c.canonical_id != visitors.c.visitor_id
        )
    return [Statement(*row) for row in connection.execute(query.limit(number))]


_KINDS = {
    "merge": (_S.visitor_id != "", _S.user_id != ""),
    "link": (_S.visitor_id != "", _S.user_id != ""),
    "user": (_S.visitor_id == "",),
    "visitor": (_S.user_id == "",),
}
_IS_VISITOR = and_(visitors.c.scope_id == _S.scope_id, visitors.c.visitor_id == _S.visitor_id)


def _note_traits(connection: Connection, claims: Sequence[Claim], now_ms: int) -> None:
    """Record what imports state about traits. Forget values that can never hold again."""
    calls = defaultdict[ScopeId, list[Claim]](list)
    for claim in claims:
        if claim.traits is not None and claim.user_id and not is_placeholder(claim.user_id):
            calls[claim.scope_id].append(claim)
    for scope, own_claims in sorted(calls.items()):
        user_ids = sorted({claim.user_id or "" for claim in own_claims})
        before = {
            (import_id, user_id): statements
            for import_id, users in _traits(connection, scope, user_ids).items()
            for (_, user_id), statements in users.items()
        }
        after = dict(before)
        for claim in own_claims:
            if claim.import_id is not None and claim.traits is not None:
                key = (claim.import_id, claim.user_id or "")
                after[key] = add_traits(after.get(key, {}), claim.traits, claim.trust, now_ms)
        if after:
            _save_traits(connection, scope, before, after)


def _save_traits(
    connection: Connection,
    scope: ScopeId,
    before: Mapping[tuple[ImportId, str], Statements],
    after: Mapping[tuple[ImportId, str], Statements],
) -> None:
    """Save what imports state about the traits of users, by import and user."""
    columns = ("user_id", "CAST(trait_statements AS TEXT) AS statements")
    user_ids = sorted({user_id for _, user_id in after})
    rows = select_rows(connection, user_links, columns, {"scope_id": scope}, "user_id", user_ids)
    known = {user_id: _TRAITS.decode(text) for user_id, text in rows if text}
    changed, new = defaultdict[ImportId, list[UserKey]](list), []
    for (import_id, user_id), statements in sorted(after.items(), key=lambda each: each[0]):
        remaining = that_may_hold(statements, known.get(user_id, {}))
        if remaining != before.get((import_id, user_id)):
            changed[import_id].append((scope, user_id))
            if remaining:
                new.append((import_id, scope, user_id, json.encode(remaining).decode()))
    for import_id, users in changed.items():
        remove_traits(connection, import_id, users)
    insert_rows(connection, import_traits, _TRAIT_COLUMNS, new)


def _traits(
    connection: Connection, scope: ScopeId, user_ids: Sequence[str]
) -> dict[ImportId, dict[UserKey, Statements]]:
    """Return what each import states about the traits of users."""
    columns = ("import_id", "user_id", "CAST(statements AS TEXT) AS statements")
    stated = defaultdict[ImportId, dict[UserKey, Statements]](dict)
    rows = select_rows(connection, import_traits, columns, {"scope_id": scope}, "user_id", user_ids)
    for import_id, user_id, statements in rows:
        stated[ImportId(import_id)][scope, user_id] = _TRAITS.decode(statements)
    return dict(stated)


def some_traits(
    connection: Connection, import_id: ImportId, number: int
) -> dict[UserKey, tuple[Statements, list[Statements]]]:
    """Return what an import states about the traits of some users, and what other imports do."""
    c = import_traits.c
    users = connection.execute(
        select(c.scope_id, c.user_id).where(c.import_id == import_id).limit(number)
    ).all()
    by_scope = defaultdict[ScopeId, list[str]](list)
    for scope, user_id in users:
        by_scope[ScopeId(scope)].append(user_id)
    stated = {}
    for scope, user_ids in by_scope.items():
        by_import = _traits(connection, scope, user_ids)
        own = by_import.pop(import_id)
        for key, statements in own.items():
            stated[key] = statements, [each[key] for each in by_import.values() if key in each]
    return stated


def remove_traits(connection: Connection, import_id: ImportId, users: Collection[UserKey]) -> None:
    for scope in sorted({scope for scope, _ in users}):
        where = {"scope_id": scope, "import_id": import_id}
        user_ids = [user_id for own_scope, user_id in users if own_scope == scope]
        change_rows(connection, "DELETE FROM import_traits", where, "user_id", user_ids)


def counts(connection: Connection, import_id: ImportId) -> StatedCounts:
    """Count what would go if the import were undone."""
    other = import_identities.alias("other").c
    is_only_own = ~exists().where(
        other.scope_id == _S.scope_id,
        other.visitor_id == _S.visitor_id,
        other.user_id == _S.user_id,
        other.import_id != import_id,
    )
    user = import_identities.alias("own_user").c
    other_user = import_identities.alias("other_user").c
    user_goes = exists().where(
        user.import_id == import_id,
        user.scope_id == visitors.c.scope_id,
        user.visitor_id == "",
        user.user_id == visitors.c.user_id,
    ) & ~exists().where(
        other_user.scope_id == visitors.c.scope_id,
        other_user.visitor_id == "",
        other_user.user_id == visitors.c.user_id,
        other_user.import_id != import_id,
    )
    is_merged = visitors.c.canonical_id != visitors.c.visitor_id
    own = (
        select(func.count())
        .select_from(import_identities)
        .where(_S.import_id == import_id, is_only_own)
    )
    of_visitors = own.join(visitors, _IS_VISITOR)
    traits = select(func.count()).where(import_traits.c.import_id == import_id)
    return StatedCounts(
        visitors=connection.execute(
            of_visitors.where(
                *_KINDS["visitor"], or_(is_merged, visitors.c.user_id.is_(None), user_goes)
            )
        ).scalar_one(),
        merges=connection.execute(
            of_visitors.where(*_KINDS["link"], is_merged, visitors.c.user_id == _S.user_id)
        ).scalar_one(),
        user_links=connection.execute(own.where(*_KINDS["user"])).scalar_one(),
        users_with_traits=connection.execute(traits).scalar_one(),
    )


def canonical_visitors(
    connection: Connection, statements: Sequence[Statement]
) -> dict[Statement, tuple[str, str | None]]:
    """Return the canonical ID and the user of each visitor that exists."""
    states: dict[tuple[str, str], tuple[str, str | None]] = {}
    for scope in {each.scope_id for each in statements}:
        own_ids = [each.visitor_id for each in statements if each.scope_id == scope]
        columns = ("visitor_id", "canonical_id", "user_id")
        rows = select_rows(
            connection, visitors, columns, {"scope_id": scope}, "visitor_id", own_ids
        )
        states |= {(scope, own_id): (canonical, user) for own_id, canonical, user in rows}
    return {
        each: states[each.scope_id, each.visitor_id]
        for each in statements
        if (each.scope_id, each.visitor_id) in states
    }


def has_merged(connection: Connection, scope: ScopeId, visitor_id: str) -> bool:
    """Whether other visitors are merged into this one."""
    c = merges.c
    merged = select(c.id).where(
        c.scope_id == scope, c.kept_id == visitor_id, c.absorbed_id != visitor_id
    )
    return connection.execute(merged.limit(1)).first() is not None


class UserState(NamedTuple):
    """A user's canonical visitor, traits, and what is known about the traits."""

    visitor_id: VisitorId
    traits: Mapping[str, Any]
    statements: Statements


def user_state(connection: Connection, scope: ScopeId, user_id: str) -> UserState | None:
    """Return the state of a user; None if the user has no visitor."""
    row = connection.execute(
        select(_L.visitor_id, _L.traits, _L.trait_statements).where(
            _L.scope_id == scope, _L.user_id == user_id
        )
    ).first()
    if row is None:
        return None
    statements = convert(row.trait_statements or {}, Statements)
    return UserState(VisitorId(row.visitor_id), row.traits or {}, statements)


def set_traits(
    connection: Connection,
    scope: ScopeId,
    user_id: str,
    traits: Mapping[str, Any],
    statements: Statements,
) -> None:
    connection.execute(
        update(user_links)
        .where(_L.scope_id == scope, _L.user_id == user_id)
        .values(traits=traits, trait_statements=statements)
    )


def release(connection: Connection, scope: ScopeId, visitor_id: str) -> None:
    """Let a visitor count as itself, without a user."""
    change_rows(connection, RELEASE_VISITOR, {"scope_id": scope}, "visitor_id", [visitor_id])


def unlink(connection: Connection, scope: ScopeId, user_id: str) -> None:
    change_rows(connection, "DELETE FROM user_links", {"scope_id": scope}, "user_id", [user_id])


def remove_visitor(connection: Connection, scope: ScopeId, visitor_id: str) -> None:
    """Remove a visitor that counts as itself and has no user."""
    where = {"scope_id": scope}
    change_rows(connection, "DELETE FROM visitors", where, "visitor_id", [visitor_id])
    change_rows(connection, "DELETE FROM merges", where, "absorbed_id", [visitor_id])


def traits_of_user(connection: Connection, scope: ScopeId, user_id: str) -> list[Statements]:
    """Return what imports have stated about the traits of a user, as far as it may hold again."""
    return [users[scope, user_id] for users in _traits(connection, scope, [user_id]).values()]
