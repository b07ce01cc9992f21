"""Days in UTC, and periods and calendar buckets in a time zone, correct across DST changes."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
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


def local_time(at_ms: int, zone: ZoneInfo) -> datetime:
    """Return the time that a clock in the zone shows, without its zone."""
    return datetime.fromtimestamp(at_ms / 1000, zone).replace(tzinfo=None)


def instant_ms(local: datetime, zone: ZoneInfo) -> int:
    """Return the instant at which a clock in the zone shows a time, which has no zone itself."""
    return round(local.replace(tzinfo=zone).timestamp() * 1000)


def start_of_day_ms(day: date, zone: ZoneInfo) -> int:
    return instant_ms(datetime.combine(day, time()), zone)


def period_from(local_start: datetime, length: timedelta, zone: ZoneInfo) -> tuple[int, int]:
    """Return the start and end in milliseconds of a period whose length is measured in local time.

    local_start: a time without a zone. A period of seven days therefore ends at the time of day at
    which it starts, even if the clocks change.
    """
    return instant_ms(local_start, zone), instant_ms(local_start + length, zone)


def period_before(start_ms: int, end_ms: int, zone: ZoneInfo) -> tuple[int, int]:
    """Return the period of the same length in local time that ends where another one starts."""
    start, end = local_time(start_ms, zone), local_time(end_ms, zone)
    return period_from(start - (end - start), end - start, zone)


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
