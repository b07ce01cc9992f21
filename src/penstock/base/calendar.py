"""Days in UTC, and calendar buckets in a time zone, correct across DST changes."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

_DAY_MS = 86_400_000


class Interval(StrEnum):
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


def utc_day(at_ms: int) -> int:
    """Return the number of days since 1970-01-01 UTC."""
    return at_ms // _DAY_MS


def bucket_edges(first_ms: int, last_ms: int, interval: Interval, zone: ZoneInfo) -> Iterator[int]:
    """Yield bucket starts in milliseconds.

    The first bucket contains `first_ms`; the last start is the first one after `last_ms`.

    Weeks start on Monday. A day of 23 or 25 hours is one bucket; a repeated hour is two buckets.
    """
    edge = _floor(datetime.fromtimestamp(first_ms / 1000, zone), interval)
    previous_ms = None
    while True:
        edge_ms = round(edge.timestamp() * 1000)
        # A day that a time zone skipped when it crossed the date line has no length.
        if previous_ms is None or edge_ms > previous_ms:
            yield edge_ms
        if edge_ms > last_ms:
            return
        edge, previous_ms = _next(edge, interval), edge_ms


def _floor(at: datetime, interval: Interval) -> datetime:
    if interval is Interval.HOUR:
        # Subtract in UTC: just after a DST change, local time hides part of the elapsed hour.
        elapsed = timedelta(minutes=at.minute, seconds=at.second, microseconds=at.microsecond)
        return (at.astimezone(UTC) - elapsed).astimezone(at.tzinfo)
    day = at.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    if interval is Interval.WEEK:
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if interval is Interval.MONTH else day


def _next(edge: datetime, interval: Interval) -> datetime:
    if interval is Interval.HOUR:
        return (edge.astimezone(UTC) + timedelta(hours=1)).astimezone(edge.tzinfo)
    if interval is Interval.MONTH:
        return edge.replace(year=edge.year + edge.month // 12, month=edge.month % 12 + 1)
    return edge + timedelta(days=7 if interval is Interval.WEEK else 1)
