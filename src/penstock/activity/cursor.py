"""Up to where someone has watched the events come in.

An event is received a moment before it is stored, and another may overtake it. So a cursor stays a few seconds behind, and remembers which
events of those seconds were given already.
"""

import binascii
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from zlib import crc32

from penstock.base.ids import EventId

BEHIND_MS = 5_000
_MOST_MARKS = 400


@dataclass(frozen=True, slots=True)
class Cursor:
    """after_ms: events received later may be new; those marked are not. A mark is a hash of 32 bits of an event's ID."""

    after_ms: int = 0
    marks: frozenset[int] = frozenset()

    def has_given(self, event_id: EventId) -> bool:
        return _mark(event_id) in self.marks

    def moved(self, events: Sequence[tuple[EventId, int]], now_ms: int, *, all_read: bool) -> "Cursor":
        """The cursor after an answer. events: (ID, time of receipt) of those that were read since this one, newest first.

        all_read: whether there are no more; older ones that were not read will not be new.
        """
        after_ms = max(self.after_ms, now_ms - BEHIND_MS)
        if not all_read:
            after_ms = max(after_ms, events[-1][1])
        if len(events) > _MOST_MARKS:
            after_ms = max(after_ms, events[_MOST_MARKS][1])
        return Cursor(after_ms, frozenset(_mark(event_id) for event_id, received_ms in events if received_ms > after_ms))

    def __str__(self) -> str:
        marks = sorted(self.marks)
        return urlsafe_b64encode(struct.pack(f">Q{len(marks)}I", self.after_ms, *marks)).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> Self:
        """ValueError when it is not a cursor of ours."""
        try:
            packed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
            after_ms, *marks = struct.unpack(f">Q{(len(packed) - 8) // 4}I", packed)
        except (binascii.Error, struct.error, UnicodeError) as error:
            raise ValueError("is not a cursor") from error
        if after_ms > 2**62:
            raise ValueError("is not a cursor")
        return cls(after_ms, frozenset(marks))


def _mark(event_id: EventId) -> int:
    return crc32(event_id.encode())
