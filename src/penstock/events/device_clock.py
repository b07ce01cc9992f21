"""Readings of a device's clock, and how they correct the times that the device states.

The time of receipt minus `sentAt` is clock error plus transit, and transit is never negative. So a
clock that seems ahead is ahead, by at least that much. One that seems behind may be right, with a
request that took hours. Source: intake, time; decision 0017 has the measurements.
"""

from hashlib import blake2b
from typing import NamedTuple

from penstock.base.ids import ScopeId

SLACK_MS = 5_000
"""A smaller error is not corrected."""
LONGEST_TRANSIT_MS = 12 * 3_600_000
"""A clock that seems further behind than this, or than it was, is wrong or was set."""

_SAME_CLOCK_MS = 60_000
"""Transits of a device's requests rarely differ by more, so a larger change is the clock's."""
_PLAINLY_WRONG_MS = 600_000
"""After such an error, a request that seems right shows that the clock was set."""
_CONFIRM_EVERY_MS = 3_600_000
KNOWN_FOR_MS = 24 * 3_600_000
"""An offset that no request has confirmed for this long is forgotten."""


class ClockReading(NamedTuple):
    """How far ahead of the server's clock a device's clock seems.

    ahead_ms: `sentAt` minus the time of receipt, which is the clock's error minus the transit; the
    error alone if is_measured: the client knows it from round trips.
    """

    ahead_ms: int
    is_measured: bool = False

    @property
    def error_ms(self) -> int:
        """How far ahead the clock is, by this reading alone."""
        is_wrong = not -LONGEST_TRANSIT_MS <= self.ahead_ms <= SLACK_MS
        return self.ahead_ms if self.is_measured or is_wrong else 0


class DeviceClock(NamedTuple):
    """A clock known to be wrong. confirmed_at_ms: when a request last agreed."""

    ahead_ms: int
    confirmed_at_ms: int


def clock_reading(
    sent_at_ms: int | None, clock_offset_ms: int | None, now_ms: int
) -> ClockReading | None:
    """The reading of what a sender says about its clock; None when it says nothing."""
    if clock_offset_ms is not None:
        return ClockReading(-clock_offset_ms, is_measured=True)
    return None if sent_at_ms is None else ClockReading(sent_at_ms - now_ms)


def by_server_clock(stated_ms: int, reading: ClockReading | None) -> int:
    """A stated time by the server's clock, as far as one request shows it."""
    return stated_ms if reading is None else stated_ms - reading.error_ms


def device_key(scope_id: ScopeId, visitor_id: str) -> bytes:
    """Identifies a device without naming its visitor. Stored: it never changes."""
    return blake2b(f"{scope_id}\0{visitor_id}".encode(), digest_size=16).digest()


def clock_after(
    known: DeviceClock | None, reading: ClockReading, now_ms: int
) -> DeviceClock | None:
    """The clock after a request; None for one that is right, as far as anybody knows.

    The offset of the first request holds for all, so that no later one changes places with it,
    until a request shows that the clock was set.
    """
    ahead_ms, is_measured = reading
    if known is not None and now_ms - known.confirmed_at_ms > KNOWN_FOR_MS:
        known = None
    if is_measured:
        is_news = known is None or abs(known.ahead_ms - ahead_ms) > SLACK_MS
        is_wrong = abs(ahead_ms) > SLACK_MS
    else:
        is_news = (
            known is None
            or ahead_ms > known.ahead_ms + _SAME_CLOCK_MS
            or ahead_ms < known.ahead_ms - LONGEST_TRANSIT_MS
            or (abs(ahead_ms) <= SLACK_MS and known.ahead_ms > _PLAINLY_WRONG_MS)
        )
        is_wrong = reading.error_ms != 0
    if is_news:
        return DeviceClock(ahead_ms, now_ms) if is_wrong else None
    assert known is not None
    is_confirmed = is_measured or ahead_ms > known.ahead_ms - _SAME_CLOCK_MS
    is_due = now_ms - known.confirmed_at_ms > _CONFIRM_EVERY_MS
    return known._replace(confirmed_at_ms=now_ms) if is_confirmed and is_due else known


def error_by_device(known: DeviceClock | None, reading: ClockReading) -> int:
    """How far ahead the clock is, by all requests of the device. known: after this one."""
    return reading.error_ms if reading.is_measured or known is None else known.ahead_ms
