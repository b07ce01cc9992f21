"""Paths to the parts of a JSON object, such as `event_params[key=page_location].value.int_value`.

A path begins with a key of the object. `.key` is a member of an object, `[2]` an element of a list,
counted from 0, and `[key=plan]` the element of a list of objects whose `key` is `plan`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from penstock.base.patterns import is_digits

_MAX_STEPS = 10
_MAX_DIGITS = 5
_SIGNS = frozenset(".[]=")
_NAMES_OF_KEYS = ("key", "name")
"""Members by which objects of a list are named, as in lists of parameters."""

Step = str | int | tuple[str, str]
"""A key, the index of an element, or the member and its value by which an element is found."""


class NotAPath(ValueError):
    """A text is not a path. The message completes the sentence "The path ... "."""


def parsed_path(text: str) -> tuple[Step, ...]:
    """Return the steps of a path. Raises `NotAPath`."""
    steps = list[Step]()
    rest = f".{text}"
    while rest:
        if rest.startswith("."):
            end = min((at for sign in ".[" if (at := rest.find(sign, 1)) > 0), default=len(rest))
            step: Step = rest[1:end]
            rest = rest[end:]
        elif rest.startswith("["):
            inner, bracket, rest = rest[1:].partition("]")
            member, sign, value = inner.partition("=")
            step = (member, value) if sign else inner
            if not bracket or not member:
                raise NotAPath("has an open bracket.")
            if not sign:
                if not is_digits(inner) or len(inner) > _MAX_DIGITS:
                    raise NotAPath("has brackets without an index or key=value.")
                step = int(inner)
        else:
            raise NotAPath("has no dot after a bracket.")
        if step == "":
            raise NotAPath("has two dots in a row, or one at its beginning or end.")
        steps.append(step)
    if len(steps) > _MAX_STEPS:
        raise NotAPath(f"has more than {_MAX_STEPS} steps.")
    return tuple(steps)


class Finder:
    """Finds parts of one object. Each list is searched once, however many paths lead into it."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._content = content
        self._named = dict[tuple[int, str], dict[str, Any]]()

    def find(self, column: str, steps: tuple[Step, ...]) -> Any:
        """Return a part of the object; None if there is none. column: the path as text, which may
        also be a key of the object.
        """
        if column in self._content:
            return self._content[column]
        value: Any = self._content
        for step in steps:
            value = self._part(value, step)
            if value is None:
                return None
        return value

    def _part(self, value: Any, step: Step) -> Any:
        if isinstance(step, str):
            return value.get(step) if isinstance(value, Mapping) else None
        if not isinstance(value, list):
            return None
        if isinstance(step, int):
            return value[step] if step < len(value) else None
        member, name = step
        at = id(value), member
        if at not in self._named:
            self._named[at] = _by_name(value, member)
        return self._named[at].get(name)


def _by_name(items: list[Any], member: str) -> dict[str, Any]:
    return {str(each[member]): each for each in items if isinstance(each, dict) and member in each}


def leaves(content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the paths and values of the innermost parts of an object. Null is left out.

    Lists are inner parts, except those of objects that have different keys or names. So are objects
    with keys that a path cannot have.
    """
    for key, value in content.items():
        if _SIGNS.isdisjoint(key):
            yield from _leaves(key, value, 1)
        elif value is not None:
            yield key, value


def _leaves(path: str, value: Any, steps: int) -> Iterator[tuple[str, Any]]:
    if steps < _MAX_STEPS - 1:
        if isinstance(value, dict) and value and all(map(_fits, value)):
            for key, part in value.items():
                yield from _leaves(f"{path}.{key}", part, steps + 1)
            return
        if member := _member_with_names(value):
            for each in value:
                parts = {key: part for key, part in each.items() if key != member}
                yield from _leaves(f"{path}[{member}={each[member]}]", parts, steps + 1)
            return
    if value is not None:
        yield path, value


def _fits(key: str) -> bool:
    return bool(key) and _SIGNS.isdisjoint(key)


def _member_with_names(value: Any) -> str | None:
    """Return the member by which the objects of a list are named; None for any other value."""
    if not isinstance(value, list) or not value:
        return None
    if not all(isinstance(each, dict) and len(each) > 1 for each in value):
        return None
    for member in _NAMES_OF_KEYS:
        names = [each.get(member) for each in value]
        if all(isinstance(name, str) and _fits(name) for name in names):
            return member if len({*names}) == len(names) else None
    return None


def is_part_of(path: str, paths: Mapping[str, Any]) -> bool:
    """Whether a path is one of these, or leads into the part that one of these leads to."""
    ends = [at for at, sign in enumerate(path) if sign in ".["]
    return path in paths or any(path[:end] in paths for end in ends)


def short_name(path: str) -> str:
    """Return the last name in a path: that of the last `[key=name]`, or else the last key."""
    _, sign, after = path.rpartition("=")
    return after.partition("]")[0] if sign else path.rpartition(".")[2]
