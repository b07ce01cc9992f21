"""The position of a client that polls for recent events.

Events are stored shortly after receipt, and not in the order of receipt. A cursor therefore stays a
few seconds behind the clock and records which events of those seconds were already returned.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from zlib import crc32

from penstock.base.clock import LATEST_MS
from penstock.base.cursors import decode_cursor, encode_cursor
from penstock.base.ids import EventId

BEHIND_MS = 5_000
_MAX_MARKS = 400


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position of a polling client.

    after_ms: events received after this time are new unless they are marked. marks: 32-bit hashes
    of the IDs of events that were already returned.
    """

    after_ms: int = 0
    marks: frozenset[int] = frozenset()

    def has_returned(self, event_id: EventId) -> bool:
        return _mark(event_id) in self.marks

    def advance(
        self, events: Sequence[tuple[EventId, int]], now_ms: int, *, all_read: bool
    ) -> "Cursor":
        """Return the cursor after a response.

        events: (ID, time of receipt in ms) of each event read since this cursor, newest first.
        all_read: whether `events` includes every new event. If not, the older events are skipped
        permanently.
        """
        after_ms = max(self.after_ms, now_ms - BEHIND_MS)
        if not all_read:
            after_ms = max(after_ms, events[-1][1])
        if len(events) > _MAX_MARKS:
            after_ms = max(after_ms, events[_MAX_MARKS][1])
        return Cursor(
            after_ms,
            frozenset(
                _mark(event_id) for event_id, received_ms in events if received_ms > after_ms
            ),
        )

    def __str__(self) -> str:
        marks = sorted(self.marks)
        return encode_cursor(struct.pack(f">Q{len(marks)}I", self.after_ms, *marks))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Decode a cursor. Raises `ValueError` if the text is not a cursor."""
        try:
            packed = decode_cursor(text)
            after_ms, *marks = struct.unpack(f">Q{(len(packed) - 8) // 4}I", packed)
        except (ValueError, struct.error) as error:
            raise ValueError("is not a cursor") from error
        if after_ms > LATEST_MS:
            raise ValueError("is not a cursor")
        return cls(after_ms, frozenset(marks))


def _mark(event_id: EventId) -> int:
    return crc32(event_id.encode())
