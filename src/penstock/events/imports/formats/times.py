"""Reads the times in a file, and notes those that can be read in several ways."""

from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal, InvalidOperation
from typing import Any

from penstock.base.clock import LATEST_MS, parse_time
from penstock.events.imports.formats.reader import DateOrder, Row
from penstock.events.imports.formats.schema import TimeUnit

REPEATED_HOUR, MISSING_HOUR = "repeated_hour", "missing_hour"
"""Codes of warnings: local times that clocks show twice or never."""
_EPOCH, _MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
_MAX_CHARS = 64
_MAX_DIGITS = 20
_PER_MILLISECOND = {
    TimeUnit.SECONDS: Decimal("0.001"),
    TimeUnit.MILLISECONDS: Decimal(1),
    TimeUnit.MICROSECONDS: Decimal(1000),
}
_DATE_ORDERS = (("%d/%m/", "%m/%d/"), ("%d-%m-", "%m-%d-"))
"""Beginnings of formats whose dates may be written in either order."""


class FileTimes:
    """Reads the times of one file, in the order of its lines.

    When clocks are set back, they show an hour twice. The order of the lines decides which of the
    two is meant where it can: in a file that is mostly in order, a time that seems to be before the
    previous line is the later of the two.

    zone: time zone of times without an offset. compares_dates: whether to note for each row in
    which orders its date can be read, which takes time.
    """

    def __init__(self, zone: tzinfo, *, compares_dates: bool = False) -> None:
        self._zone, self._compares_dates = zone, compares_dates
        self._is_utc = zone.utcoffset(None) == timedelta()
        self._last_ms: int | None = None
        self._rises = self._falls = 0
        self._warnings = set[str]()
        self._date_order: DateOrder | None = None

    def noted(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Yield rows, each with what was noted while its times were read."""
        for row in rows:
            if self._warnings or self._date_order is not None:
                warnings = {*row.warnings, *self._warnings}
                row = row._replace(warnings=warnings, date_order=self._date_order)
                self._warnings.clear()
                self._date_order = None
            yield row

    def compare_dates(self, text: str, time_format: str | None) -> None:
        """Note in which orders the date of a row can be read."""
        other = swapped_format(time_format) if self._compares_dates else None
        if other is not None:
            fits = _fits(text, time_format), _fits(text, other)
            orders = (self._date_order, _DATE_ORDER_OF.get(fits))  # A row may have several times.
            self._date_order = common_order({order for order in orders if order is not None})

    def local_ms(self, wall_ms: int) -> int:
        """Return the time at which clocks showed a time.

        wall_ms: what clocks showed, in milliseconds as if it were UTC.
        """
        if self._is_utc or not 0 <= wall_ms <= LATEST_MS:
            return wall_ms  # A time outside these years is rejected later.
        wall = (_EPOCH + wall_ms * _MILLISECOND).replace(tzinfo=self._zone)
        first, second = wall_ms - _offset_ms(wall), wall_ms - _offset_ms(wall.replace(fold=1))
        if first > second:
            self._warnings.add(MISSING_HOUR)
            return first
        self._last_ms = self._likely(first, second)
        if first < second:
            self._warnings.add(REPEATED_HOUR)
        return self._last_ms

    def _likely(self, first_ms: int, second_ms: int) -> int:
        """Return the likely one of two times, by the time of the previous line."""
        last_ms = self._last_ms
        if last_ms is None:
            return first_ms
        self._rises += first_ms > last_ms
        self._falls += second_ms < last_ms
        if self._falls > self._rises:  # The newest lines come first.
            return second_ms if second_ms <= last_ms else first_ms
        return second_ms if first_ms < last_ms <= second_ms else first_ms

    def sent_ms(self, time: Any) -> Any:
        """Read a time of a product. Returns anything else unchanged, so that it is rejected."""
        try:
            return parse_time(time, naive_is_utc=self._is_utc)
        except ValueError:
            pass
        try:
            return self.local_ms(parse_time(time, naive_is_utc=True))
        except ValueError:
            return time


def read_time_ms(value: Any, unit: TimeUnit, time_format: str | None, times: FileTimes) -> int:
    """Return a time in milliseconds since 1970.

    value: the text of a cell, or a number. time_format: format for `strptime`; None for ISO 8601.
    Raises `ValueError` with a reason that completes the sentence "This time ...".
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("is neither text nor a number")
    text = str(value).strip()
    if len(text) > _MAX_CHARS:
        raise ValueError("is too long")
    if unit is TimeUnit.TEXT:
        times.compare_dates(text, time_format)
        time = _parsed(text, time_format)
        # Do not use `astimezone`: applying the offset may give a year that a `datetime` cannot
        # hold.
        return _ms(time) if time.tzinfo else times.local_ms(_ms(time.replace(tzinfo=UTC)))
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"is not a number of {unit}") from None
    if not number.is_finite() or number.adjusted() >= _MAX_DIGITS:
        raise ValueError(f"is not a number of {unit}")
    return int(number / _PER_MILLISECOND[unit])


def _parsed(text: str, time_format: str | None) -> datetime:
    try:
        if time_format is None:
            return datetime.fromisoformat(_iso(text))
        return datetime.strptime(text, time_format)  # noqa: DTZ007
    except ValueError:
        written = "as ISO 8601" if time_format is None else f"in the format {time_format}"
        raise ValueError(f"is not written {written}") from None


def swapped_format(time_format: str | None) -> str | None:
    """Return the format with day and month in the other order; None if nobody writes it so."""
    for pair in _DATE_ORDERS:
        for own, other in (pair, pair[::-1]):
            if time_format is not None and time_format.startswith(own):
                return other + time_format.removeprefix(own)
    return None


def common_order(orders: Collection[DateOrder]) -> DateOrder | None:
    """Return the order of day and month that all rows allow; that of the format if none does.

    orders: those of the rows; None is returned if no row has one.
    """
    if not orders:
        return None
    if DateOrder.AS_FORMAT in orders:
        return DateOrder.AS_FORMAT
    return DateOrder.SWAPPED if DateOrder.SWAPPED in orders else DateOrder.EITHER


def _fits(text: str, time_format: str | None) -> bool:
    try:
        _parsed(text, time_format)
    except ValueError:
        return False
    return True


_DATE_ORDER_OF = {
    (True, False): DateOrder.AS_FORMAT,
    (True, True): DateOrder.EITHER,
    (False, True): DateOrder.SWAPPED,
}


def _offset_ms(time: datetime) -> int:
    offset = time.utcoffset()
    return 0 if offset is None else offset // _MILLISECOND


def _ms(time: datetime) -> int:
    return (time - _EPOCH) // _MILLISECOND


def _iso(text: str) -> str:
    """Join an offset that follows the time after a space, as databases write it."""
    date, _, rest = text.partition(" ")
    clock, _, offset = rest.partition(" ")
    if not offset:
        return text
    return f"{date}T{clock}{'Z' if offset in ('UTC', 'GMT') else offset}"
