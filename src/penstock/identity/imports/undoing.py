"""Removes what only an undone import has stated about visitors and users.

The canonical visitor of a user keeps its user as long as anything of the user remains: the events
of all visitors of the user are stored under its ID.
"""

from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Connection

from penstock.base.ids import ImportId, VisitorId
from penstock.identity.imports import store
from penstock.identity.imports.model import Statement, Undone
from penstock.identity.model import IdentityChanges, TraitsChange
from penstock.identity.removal.store import lock_out_other_transactions
from penstock.identity.resolution import Move
from penstock.identity.store import save_moves
from penstock.identity.traits import current_traits, without_import

_NUMBER = 500
"""Number of statements that one transaction undoes, because all other writes wait for it."""


def undo_some(connection: Connection, import_id: ImportId, part: str, now_ms: int) -> Undone | None:
    """Remove some of what only this import has stated. Returns None if nothing is left.

    part: one of `PARTS`, in their order. connection: has an open write transaction.

    Raises `ConcurrentUpdate` if the tables stay in use for too long: roll back and retry.
    """
    lock_out_other_transactions(connection)
    return _PARTS[part](connection, import_id, now_ms)


def _undo_traits(connection: Connection, import_id: ImportId, now_ms: int) -> Undone | None:
    stated = store.some_traits(connection, import_id, _NUMBER)
    if not stated:
        return None
    changes = []
    for (scope, user_id), (own, others) in stated.items():
        user = store.user_state(connection, scope, user_id)
        if user is None:
            continue
        statements = without_import(user.statements, own, others)
        current = current_traits(statements)
        store.set_traits(connection, scope, user_id, current, statements)
        if current != user.traits:
            changes.append(TraitsChange(scope, user.visitor_id, current))
    store.remove_traits(connection, import_id, stated)
    return Undone(IdentityChanges([], changes), users_with_traits=len(changes))


def _release_merged(connection: Connection, import_id: ImportId, now_ms: int) -> Undone | None:
    statements = store.some_statements(connection, import_id, "merge", _NUMBER)
    if not statements:
        return None
    known = store.canonical_visitors(connection, statements)
    moves = []
    for each in _own(connection, import_id, statements):
        canonical_id, user_id = known[each]
        if user_id == each.user_id:
            own_id = VisitorId(each.visitor_id)
            moves.append(Move(each.scope_id, own_id, VisitorId(canonical_id), own_id, user_id))
            store.release(connection, each.scope_id, own_id)
    aliases = save_moves(connection, moves, now_ms)
    return Undone(IdentityChanges(aliases, []), merges=len(aliases))


def _unlink_visitors(connection: Connection, import_id: ImportId, now_ms: int) -> Undone | None:
    statements = store.some_statements(connection, import_id, "link", _NUMBER)
    if not statements:
        return None
    known = store.canonical_visitors(connection, statements)
    linked = [
        each
        for each in _own(connection, import_id, statements)
        if known.get(each) == (each.visitor_id, each.user_id)
    ]
    return _unlink(connection, import_id, linked)


def _unlink_users(connection: Connection, import_id: ImportId, now_ms: int) -> Undone | None:
    statements = store.some_statements(connection, import_id, "user", _NUMBER)
    if not statements:
        return None
    importers = store.importers(connection, statements)
    linked = []
    for each in statements:
        user = store.user_state(connection, each.scope_id, each.user_id)
        if user is not None and importers.get(each) == {import_id}:
            linked.append(each._replace(visitor_id=user.visitor_id))
    undone = _unlink(connection, import_id, linked)
    store.remove(connection, statements, import_id)
    return undone


def _unlink(connection: Connection, import_id: ImportId, links: Sequence[Statement]) -> Undone:
    """Unlink users from their canonical visitors, unless anything else of a user remains."""
    users = [each._replace(visitor_id="") for each in links]
    importers, changes, number = store.importers(connection, users), [], 0
    for link, user in zip(links, users, strict=True):
        scope, visitor_id, user_id = link
        others = importers.get(user, set()) - {import_id}
        if others:  # The link goes with the last of them.
            if not store.importers(connection, [link]):
                store.add(connection, min(others), link)
            continue
        state = store.user_state(connection, scope, user_id)
        if (
            import_id not in importers.get(user, ())
            or state is None
            or state.visitor_id != visitor_id
            or store.has_merged(connection, scope, visitor_id)
        ):
            continue
        store.unlink(connection, scope, user_id)
        store.release(connection, scope, visitor_id)
        store.remove(connection, [user], import_id)
        number += 1
        if state.traits:
            changes.append(TraitsChange(scope, state.visitor_id, {}))
    return Undone(IdentityChanges([], changes), user_links=number)


def _remove_visitors(connection: Connection, import_id: ImportId, now_ms: int) -> Undone | None:
    statements = store.some_statements(connection, import_id, "visitor", _NUMBER)
    if not statements:
        return None
    known = store.canonical_visitors(connection, statements)
    removed = [
        each
        for each in _own(connection, import_id, statements)
        if known.get(each) == (each.visitor_id, None)
        and not store.has_merged(connection, each.scope_id, each.visitor_id)
    ]
    for scope, visitor_id, _ in removed:
        store.remove_visitor(connection, scope, visitor_id)
    own_ids = tuple(VisitorId(each.visitor_id) for each in removed)
    return Undone(IdentityChanges([], []), visitors=own_ids)


def _own(
    connection: Connection, import_id: ImportId, statements: Sequence[Statement]
) -> list[Statement]:
    """Remove an import's rows of these statements, and return those that no other import makes."""
    importers = store.importers(connection, statements)
    store.remove(connection, statements, import_id)
    return [each for each in statements if importers.get(each) == {import_id}]


_PARTS: Mapping[str, Callable[[Connection, ImportId, int], Undone | None]] = {
    "traits": _undo_traits,
    "merges": _release_merged,
    "links": _unlink_visitors,
    "users": _unlink_users,
    "visitors": _remove_visitors,
}
PARTS = tuple(_PARTS)
"""Parts of the identities that an undo removes, in their order."""
