"""Buckets of time that people think in: hours, days, weeks and months of a time zone, whole across changes of its clocks."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo


class Interval(StrEnum):
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


def bucket_edges(first_ms: int, last_ms: int, interval: Interval, zone: ZoneInfo) -> Iterator[int]:
    """Beginnings of the buckets, in milliseconds, from the one that holds `first_ms` to the first after `last_ms`.

    Weeks begin on Monday. A day of 23 or 25 hours is one bucket; the hour that a clock repeats is two.
    """
    edge = _floor(datetime.fromtimestamp(first_ms / 1000, zone), interval)
    before_ms = None
    while True:
        edge_ms = round(edge.timestamp() * 1000)
        if before_ms is None or edge_ms > before_ms:  # a day that a zone skipped, at the date line, has no length
            yield edge_ms
        if edge_ms > last_ms:
            return
        edge, before_ms = _next(edge, interval), edge_ms


def _floor(at: datetime, interval: Interval) -> datetime:
    if interval is Interval.HOUR:  # back by the minutes that passed, which local time may not show after a change of its clocks
        passed = timedelta(minutes=at.minute, seconds=at.second, microseconds=at.microsecond)
        return (at.astimezone(UTC) - passed).astimezone(at.tzinfo)
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
