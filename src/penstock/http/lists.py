"""Reads bodies with long lists: finds the items first, then parses each separately.

Parsing a body creates a Python object for every JSON value: 10 MB of `{}` would become 300 MB. So
before parsing anything large, this module checks the number of items, the size of each item, the
size of all other fields, and the number of values against the limits. Finding the items in 10 MB
takes 25 ms and creates no objects. The search is lenient: parsing detects invalid JSON later.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.base.errors import Fault, Invalid, Malformed
from penstock.base.event_limits import MAX_BATCH_EVENTS, MAX_EVENT_BYTES
from penstock.base.patterns import BytesPattern
from penstock.base.value_budget import EVENTS, count_values, may_have_more_values
from penstock.http.bodies import not_an_object, not_json, parse_json, parse_object

_DEPTH = 200
"""Maximum number of nesting levels. The parser rejects deeper JSON."""
_MAX_FIELDS = 1_000
"""Maximum number of fields before the list in a large body."""
_ESCAPED = 3
"""Maximum ratio between the size of JSON as sent and its size in UTF-8: `\\u00e9` takes 6 bytes, é
takes 2.
"""

_SPACE = rb"[ \t\r\n]*"
_STRING = rb'"(?:[^"\\]|\\.)*"'


def _nested_pattern(depth: int) -> bytes:
    """Return a pattern for an object or a list with at most this many levels below it."""
    content = rb'[^\[\]{}"]|' + _STRING
    pattern = rb"[\[{](?:" + content + rb")*[\]}]"
    for _ in range(depth):
        pattern = rb"[\[{](?:" + content + rb"|" + pattern + rb")*[\]}]"
    return pattern


_VALUE = rb'(?:[^\[\]{}",\s]+|' + _STRING + rb"|" + _nested_pattern(_DEPTH) + rb")"
_OBJECT_START = BytesPattern(_SPACE + rb"\{" + _SPACE)
_FIELD = BytesPattern(_STRING + _SPACE + rb":" + _SPACE + _VALUE + _SPACE + rb"," + _SPACE)
_LIST_START = BytesPattern(_SPACE + rb":" + _SPACE + rb"\[")
_ITEM = BytesPattern(_SPACE + _VALUE + _SPACE)
_EMPTY_LIST_END = BytesPattern(_SPACE + rb"\]")
_WHITESPACE = b" \t\r\n"


class ListLimits(NamedTuple):
    """Limits on a list. items: maximum number of items.

    item_bytes: maximum size of each item, and maximum total size of all other fields.
    """

    items: int
    item_bytes: int

    def is_small(self, body: bytes) -> bool:
        """Whether the body is small enough to be parsed in one piece."""
        return len(body) <= self.item_bytes

    @property
    def sent_bytes(self) -> int:
        """Maximum size of an item as sent, which may use escapes."""
        return self.item_bytes * _ESCAPED


EVENT_LIST = ListLimits(MAX_BATCH_EVENTS, MAX_EVENT_BYTES)
"""Limits on a batch of events."""


class UnreadList(Sequence[Any]):
    """The list in a large body. Each access parses the item again; nothing is cached.

    Accessing an item raises `Invalid` if it exceeds the limit, and `Malformed` if it is invalid
    JSON.
    """

    def __init__(self, body: bytes, spans: Sequence[tuple[int, int]], limits: ListLimits) -> None:
        """spans: start and end of each item in the body, in bytes."""
        self._body, self._spans, self._limits = body, spans, limits

    def __len__(self) -> int:
        return len(self._spans)

    def values_bound(self) -> int:
        """Return an upper bound of the values of all items that are within the limit."""
        return sum(
            count_values(self._body[start:end])
            for start, end in self._spans
            if end - start <= self._limits.sent_bytes
        )

    def __getitem__(self, index: Any) -> Any:
        start, end = self._spans[index]
        text = self._body[start:end].strip(_WHITESPACE)
        if len(text) > self._limits.sent_bytes:
            raise _item_too_large(len(text), self._limits)
        return parse_json(text)


def parse_object_with_list(body: bytes, name: str, limits: ListLimits) -> dict[str, Any]:
    """Like `parse_object`, but in a large body the list with this name is an `UnreadList`.

    A list that exceeds the limit is cut off after one extra item, and fields after the list are
    dropped. Raises `Invalid` if the other fields are too large or the body has too many values.
    """
    if limits.is_small(body):
        return parse_object(body, _for_arrays(name))
    start = _list_start(body, name, limits)
    if start is None:
        _require_size(len(body), name, limits)
        return parse_object(body)
    spans, end = _items(body, start, limits.items + 1)
    rest = body[end:] if len(spans) <= limits.items else b"]}"
    _require_size(start + len(rest), name, limits)
    fields = parse_object(body[:start] + rest)
    if fields.get(name) == []:  # False if the body contains the name again with another value.
        fields[name] = UnreadList(body, spans, limits)
        is_counted = len(spans) <= limits.items and may_have_more_values(body, EVENTS.max_values)
        if is_counted and fields[name].values_bound() > EVENTS.max_values:
            raise Invalid([EVENTS.fault()])
    return fields


def _list_start(body: bytes, name: str, limits: ListLimits) -> int | None:
    """Return the offset of the list's first item. Returns None if too many fields or bytes come
    before the list.
    """
    position = _OBJECT_START.end_of_match(body, 0)
    if position is None:
        raise _problem_with_start(body, name)
    key = b'"%s"' % name.encode()
    for _ in range(_MAX_FIELDS):
        if position > limits.sent_bytes:
            return None
        if body.startswith(key, position):
            start = _LIST_START.end_of_match(body, position + len(key))
            if start is not None:
                return start
        end = _FIELD.end_of_match(body, position)
        if end is None:
            return None
        position = end
    return None


def _items(body: bytes, start: int, max_items: int) -> tuple[list[tuple[int, int]], int]:
    """Find the first items. Returns each item's start and end, and the offset at which reading
    ended.

    Reading ends at the end of the list, or after the last item within the limit.
    """
    if (end := _EMPTY_LIST_END.end_of_match(body, start)) is not None:
        return [], end - 1
    spans = list[tuple[int, int]]()
    while len(spans) < max_items:
        end = _ITEM.end_of_match(body, start)
        if end is None or body[end : end + 1] not in (b",", b"]"):
            raise not_json(f"expected an item, a comma or the end of the list after byte {start:,}")
        spans.append((start, end))
        if body[end : end + 1] == b"]":
            return spans, end
        start = end + 1
    return spans, start


def _require_size(size: int, name: str, limits: ListLimits) -> None:
    if size > limits.sent_bytes:
        message = (
            f"An event may have at most {limits.item_bytes:,} bytes of JSON, and so may the fields "
            f"beside the list {name}. These have {size:,}."
        )
        raise Invalid([Fault("", "too_large", message)])


def _item_too_large(size: int, limits: ListLimits) -> Invalid:
    message = (
        f"An event may have at most {limits.item_bytes:,} bytes of JSON; this one has {size:,}."
    )
    return Invalid([Fault("", "too_large", message)])


def _for_arrays(name: str) -> str:
    return f'Send many items as {{"{name}": [...]}}.'


def _problem_with_start(body: bytes, name: str) -> Invalid | Malformed:
    """Build the error for a body that does not start with an object and is too large to be
    parsed.
    """
    first = body.lstrip(_WHITESPACE)[:1]
    if first and first in b'["-0123456789tfnNI':
        return not_an_object(_for_arrays(name) if first == b"[" else "")
    return not_json("expected an object")
