"""The rules of users' traits, as pure functions over plain values. No I/O.

A trait has the value that was stated last, whatever the order in which the statements arrive. The
value null says that the user does not have the trait. Three kinds of statements are kept for each
trait:

- live: from a client or a backend. A statement of higher trust holds against one of lower trust,
  which anyone may have sent; at equal trust, the newer one holds.
- imported: from a file, which does not say whom it trusted. So the newer of the live and the
  imported statement holds.
- once: the earliest value for users without the trait. It holds if there is no other statement.

If two values have the same time, the value whose JSON text comes first holds.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import json

from penstock.base.event_limits import MAX_EVENT_BYTES, MAX_PROPERTY_KEYS
from penstock.identity.model import StatedTraits, Trust

LIVE, IMPORTED, ONCE = "live", "imported", "once"


class Statement(NamedTuple):
    """A value of a trait. at_ms: when it was stated."""

    trust: Trust
    at_ms: int
    value: Any


Statements = Mapping[str, Mapping[str, Statement]]
"""The statements about the traits of a user, by trait and kind."""


def add_traits(stored: Statements, stated: StatedTraits, trust: Trust, now_ms: int) -> Statements:
    """Return what is known about a user's traits after another call.

    now_ms: the time of a call that does not state one.
    """
    statements = dict(stored)
    kind = IMPORTED if stated.is_import else LIVE
    for own_kind, values in ((kind, stated.values), (ONCE, stated.once)):
        for name, value in values.items():
            own = statements.get(name, {})
            at_ms = _time_after(own, now_ms) if stated.at_ms is None else stated.at_ms
            new, earlier = Statement(trust, at_ms, value), own.get(own_kind)
            if earlier is None or _holds(own_kind, new, earlier):
                statements[name] = _still_needed({**own, own_kind: new})
    return _within_limits(statements)


def current_traits(statements: Statements) -> dict[str, Any]:
    """Return the traits that a user has, by name."""
    current = {name: _current(own).value for name, own in statements.items()}
    return {name: value for name, value in current.items() if value is not None}


def trait_times(statements: Statements) -> dict[str, int]:
    """Return when each trait was stated, in milliseconds. Includes traits that were removed."""
    return {name: _current(own).at_ms for name, own in statements.items()}


def other_values(
    statements: Statements, of_imports: Collection[Statements] = ()
) -> Iterator[tuple[str, Statement]]:
    """Yield the traits and values that do not hold, but are stored because they may hold again.

    of_imports: what imports stated.
    """
    for name, own in statements.items():
        for statement in own.values():
            if statement is not _current(own) and statement.value is not None:
                yield name, statement
    for imported in of_imports:
        for name, own in imported.items():
            for statement in own.values():
                is_known = statement in statements.get(name, {}).values()
                if statement.value is not None and not is_known:
                    yield name, statement


def that_may_hold(stated: Statements, statements: Statements) -> Statements:
    """Leave out what an import has stated and can never hold again.

    statements: what is known about the user's traits. It has another value of the same kind if an
    import replaced the value, which holds again if that import is undone.
    """
    remaining = {
        name: {kind: each for kind, each in own.items() if kind in statements.get(name, {})}
        for name, own in stated.items()
    }
    return {name: own for name, own in remaining.items() if own}


def without_import(
    statements: Statements, own: Statements, others: Collection[Statements]
) -> Statements:
    """Return what is known about a user's traits without what an import has stated.

    own: what the import stated. others: what other imports stated.
    """
    after = dict(statements)
    for name, stated in own.items():
        known = dict(statements.get(name, {}))
        for kind in (IMPORTED, ONCE):
            if kind in known and known[kind] == stated.get(kind):
                del known[kind]
                for other in (each[name] for each in others if name in each):
                    if kind in other and (
                        kind not in known or _holds(kind, other[kind], known[kind])
                    ):
                        known[kind] = other[kind]
        after[name] = _still_needed(known)
    return {name: known for name, known in after.items() if known}


def _still_needed(own: dict[str, Statement]) -> dict[str, Statement]:
    """Leave out values that can never hold again, because they may be data that a person had
    removed.

    A live value holds again if the import that replaced it is undone, unless the import removed it.
    The trust of an old live statement still decides about later ones.
    """
    live, imported = own.get(LIVE), own.get(IMPORTED)
    if live is None and imported is None:
        return own
    if live is not None and imported is not None and imported.at_ms > live.at_ms:
        is_removed = imported.value is None
        return {LIVE: live._replace(value=None) if is_removed else live, IMPORTED: imported}
    if live is not None and live.trust >= Trust.BACKEND:
        return {LIVE: live}
    return {kind: statement for kind, statement in own.items() if kind != ONCE}


def _current(own: Mapping[str, Statement]) -> Statement:
    timed = [own[kind] for kind in (LIVE, IMPORTED) if kind in own]
    return max(timed, key=lambda statement: statement.at_ms) if timed else own[ONCE]


def _time_after(own: Mapping[str, Statement], now_ms: int) -> int:
    """Return the time of a statement without one: now, or just after the earlier statements."""
    return max([now_ms, *(statement.at_ms + 1 for statement in own.values())])


def _holds(kind: str, new: Statement, earlier: Statement) -> bool:
    """Whether a statement holds against the earlier one of the same kind."""
    if new.trust != earlier.trust:
        return new.trust > earlier.trust
    if new.at_ms != earlier.at_ms:
        return (new.at_ms > earlier.at_ms) is not (kind == ONCE)
    return json.encode(new.value, order="sorted") < json.encode(earlier.value, order="sorted")


def _within_limits(statements: dict[str, Mapping[str, Statement]]) -> Statements:
    """Leave out the traits that were stated first if there are more than a call can have.

    Traits of lower trust are left out before those of higher trust.
    """
    if len(statements) <= MAX_PROPERTY_KEYS and len(json.encode(statements)) <= MAX_EVENT_BYTES:
        return statements
    current = {name: _current(own) for name, own in statements.items()}
    names = sorted(current, key=lambda name: (*current[name][:2], name), reverse=True)
    size, newest = 0, dict[str, Mapping[str, Statement]]()
    for name in names[:MAX_PROPERTY_KEYS]:
        size += len(json.encode((name, current[name].value)))
        if size > MAX_EVENT_BYTES:
            break
        newest[name] = statements[name]
    return newest
