"""Corrects the times that a device states, using readings of its clock.

`sentAt` minus the time of receipt is the clock's error minus the transit time, which is never
negative. So a clock that seems ahead is really ahead, by at least that much. A clock that seems
behind may be right, if the request took hours to arrive. Source: intake, time. Decision 0017
contains the measurements.
"""

from hashlib import blake2b
from typing import NamedTuple

from penstock.base.ids import ScopeId

SLACK_MS = 5_000
"""Maximum clock error that is not corrected, in milliseconds."""
LONGEST_TRANSIT_MS = 12 * 3_600_000
"""Maximum transit time of a request, in milliseconds. A clock that seems further behind is
wrong.
"""

_SAME_CLOCK_MS = 60_000
"""Maximum difference between the transit times of a device's requests, in milliseconds. A larger
difference means that the clock was set.
"""
_PLAINLY_WRONG_MS = 600_000
"""Threshold for a known clock error, in milliseconds. Above it, a request whose clock seems right
shows that the clock was set.
"""
_CONFIRM_EVERY_MS = 3_600_000
KNOWN_FOR_MS = 24 * 3_600_000
"""Time after which an unconfirmed offset expires, in milliseconds."""


class ClockReading(NamedTuple):
    """How far a device's clock seems to be ahead of the server's clock.

    ahead_ms: `sentAt` minus the time of receipt, which is the clock's error minus the transit time;
    the clock's error alone if is_measured. is_measured: whether the client measured round trips.
    """

    ahead_ms: int
    is_measured: bool = False

    @property
    def error_ms(self) -> int:
        """The clock's error according to this reading alone; positive if it is ahead."""
        is_wrong = not -LONGEST_TRANSIT_MS <= self.ahead_ms <= SLACK_MS
        return self.ahead_ms if self.is_measured or is_wrong else 0


class DeviceClock(NamedTuple):
    """A clock known to be wrong. confirmed_at_ms: time of the last request that confirmed it."""

    ahead_ms: int
    confirmed_at_ms: int


def clock_reading(
    sent_at_ms: int | None, clock_offset_ms: int | None, now_ms: int
) -> ClockReading | None:
    """Return a sender's clock reading; None if the sender did not send one."""
    if clock_offset_ms is not None:
        return ClockReading(-clock_offset_ms, is_measured=True)
    return None if sent_at_ms is None else ClockReading(sent_at_ms - now_ms)


def by_server_clock(stated_ms: int, reading: ClockReading | None) -> int:
    """Convert a stated time to the server's clock, using one request's reading."""
    return stated_ms if reading is None else stated_ms - reading.error_ms


def device_key(scope_id: ScopeId, visitor_id: str) -> bytes:
    """Return a hash that identifies a device but not its visitor. It must never change."""
    return blake2b(f"{scope_id}\0{visitor_id}".encode(), digest_size=16).digest()


def clock_after(
    known: DeviceClock | None, reading: ClockReading, now_ms: int
) -> DeviceClock | None:
    """Return the clock as known after a request; None if it seems right.

    The offset of the first request applies to all later requests, so that events keep their order,
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
    """Return the clock's error, based on all requests of the device.

    known: the result of `clock_after`.
    """
    return reading.error_ms if reading.is_measured or known is None else known.ahead_ms
