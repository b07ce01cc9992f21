"""Plain types for recognising repeats, and what an event's number says. No I/O."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct
from typing import Any, NamedTuple, cast

from penstock.base.ids import (
    MAX_NUMBERED,
    EventId,
    ImportId,
    VisitorId,
    numbered_ids,
    unpacked_id,
)

_NUMBER_BITS = MAX_NUMBERED.bit_length() - 1


class DedupeRecord(NamedTuple):
    """The first event with a dedupe key.

    body: its content hash as in `body_number`. visitor_id: None once the visitor was deleted.
    created_at_ms: always later than in earlier commits. import_id: the import that stored the
    event.
    """

    body: int | None
    event_id: EventId
    visitor_id: VisitorId | None
    created_at_ms: int
    import_id: ImportId | None


class EventKey(NamedTuple):
    """A row of the table of event keys.

    key: keyed hash of the dedupe key, 16 bytes. number: result of `event_number`. body: result of
    `body_number`. origin: number of the event's origin. visitor: the visitor's packed ID. body and
    visitor are None once the visitor was deleted. event_id: packed ID of the event; None if it
    follows from key and number.
    """

    key: bytes
    number: int
    body: int | None
    origin: int
    visitor: bytes | None
    event_id: bytes | None


_HALVES = Struct(">qq")
_FIRST_HALF: Callable[[bytes], tuple[int]] = Struct(">q").unpack_from


def halves(keys: Iterable[bytes]) -> Iterator[tuple[int, int]]:
    """Yield each key as two numbers, the form in which it is stored."""
    return cast("Iterator[tuple[int, int]]", _HALVES.iter_unpack(b"".join(keys)))


def key_of(high: int, low: int) -> bytes:
    return _HALVES.pack(high, low)


def event_key(high: int, low: int, *columns: Any) -> EventKey:
    """Return a row with the halves of its key. columns: in the order of the fields."""
    return EventKey(key_of(high, low), *columns)


def event_id_of(row: EventKey) -> EventId:
    """Return the ID of the event with this key."""
    if row.event_id is None:
        return event_ids(row.number, [row.key])[0]
    return EventId(unpacked_id("evt", row.event_id))


def visitor_of(row: EventKey) -> VisitorId | None:
    """Return the visitor of the event with this key; None once the visitor was deleted."""
    return None if row.visitor is None else VisitorId(unpacked_id("vis", row.visitor))


class Origin(NamedTuple):
    """The identity scope and the import of events.

    scope_tag: tag of the scope of their visitors. import_id: the import that stored them.
    """

    scope_tag: int
    import_id: ImportId | None


def event_number(id_ms: int, index: int) -> int:
    """Return the number of an event. id_ms: time of its commit, later than in all earlier commits.

    index: position in the commit.
    """
    return id_ms << _NUMBER_BITS | index


def last_number(id_ms: int) -> int:
    """Return the highest number that an event of this millisecond can have."""
    return event_number(id_ms, MAX_NUMBERED - 1)


def number_ms(number: int) -> int:
    """Return the time of the commit of the event with this number."""
    return number >> _NUMBER_BITS


def event_ids(first: int, keys: Sequence[bytes | None]) -> list[EventId]:
    """Return the IDs of events of one commit, numbered from `first`.

    keys: hashes of their dedupe keys; None for an event that has none.
    """
    ids = numbered_ids("evt", number_ms(first), keys, first & MAX_NUMBERED - 1)
    return cast("list[EventId]", ids)


def body_number(body_hash: bytes) -> int:
    """Return half of a content hash, for storing it: it only distinguishes events with one ID.

    body_hash: at least 8 bytes.
    """
    return _FIRST_HALF(body_hash)[0]
