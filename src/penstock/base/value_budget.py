"""Limits on the number of JSON values in a text, by the way in which it enters the service.

A few kilobytes can decompress to millions of empty lists, each of which becomes a Python object. So
the values are counted in the text before it is decoded. This table is the only place with budgets.
"""

from typing import NamedTuple

from penstock.base.errors import Fault, Invalid
from penstock.base.event_limits import MAX_EVENT_VALUES

_MARKS = b",[{"
"""Every value but the first follows one of these."""
_NO_MARKS = bytes(set(range(256)) - set(_MARKS))
_NO_MARKS_AND_QUOTES = bytes(set(_NO_MARKS) - set(b'"'))
_PIECE_BYTES = 64 * 1024


class ValueBudget(NamedTuple):
    """A budget for one kind of text. noun: the kind. advice: what its sender can do."""

    noun: str
    max_values: int
    advice: str

    def require(self, text: bytes) -> None:
        """Raise `Invalid` if the text has more values than the budget allows."""
        if not self.has_room_for(text):
            raise Invalid([self.fault()])

    def has_room_for(self, text: bytes) -> bool:
        """Whether the text is within the budget."""
        return not has_more_values(text, self.max_values)

    def fault(self, field: str = "") -> Fault:
        """Build the fault of a text with too many values. field: path of the largest part."""
        message = (
            f"{self.noun} may have at most {self.max_values:,} JSON values, where an empty list or "
            f"object counts as two. {self.advice}"
        )
        return Fault(field, "too_many_values", message)


EVENT = ValueBudget("An event", MAX_EVENT_VALUES, "Send long lists as text, or as several events.")
LINE = ValueBudget("A line", MAX_EVENT_VALUES, "Shorten its arrays, or store them as text.")
EVENTS = ValueBudget("A body with events", 300_000, "Send the events in several bodies.")
WEBHOOK = ValueBudget("A webhook", 50_000, "Turn off what you do not need at the provider.")
FORM = ValueBudget("A body", 10_000, "Shorten its lists.")
DEFINITION = ValueBudget("A body or file with definitions", 200_000, "Shorten its lists.")


def has_more_values(text: bytes, limit: int) -> bool:
    """Whether a JSON text has more values than the limit, as `count_values` counts them."""
    return may_have_more_values(text, limit) and count_values(text) > limit


def may_have_more_values(text: bytes, limit: int) -> bool:
    """Whether a quick look at a text leaves open whether it has more values than the limit."""
    return len(text) >= 2 * limit and len(text.translate(None, _NO_MARKS)) >= limit


def count_values(text: bytes) -> int:
    """Return an upper bound of the JSON values in a text, without decoding it.

    Empty lists and objects count as two values. Texts inside quotes and keys of objects do not
    count. Takes about a nanosecond per byte.
    """
    return 1 + len(_without_strings(text))


def _without_strings(text: bytes) -> bytes:
    """Return the commas and opening brackets of a JSON text that are outside of its strings."""
    if b"\\" in text:
        text = text.replace(rb"\\", b"").replace(rb"\"", b"")
    marks = text.translate(None, _NO_MARKS_AND_QUOTES).replace(b'""', b"")
    if b'"' not in marks:
        return marks
    # Remove the strings piece by piece, because splitting a large text at once takes much memory.
    outside, is_in_string = list[bytes](), False
    for start in range(0, len(marks), _PIECE_BYTES):
        parts = marks[start : start + _PIECE_BYTES].split(b'"')
        outside += parts[is_in_string::2]
        is_in_string ^= len(parts) % 2 == 0
    return b"".join(outside)
