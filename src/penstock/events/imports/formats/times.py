"""Reads the times in a column of a table."""

from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal, InvalidOperation
from typing import Any

from penstock.events.imports.formats.schema import TimeUnit

_EPOCH, _MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
_MAX_CHARS = 64
_MAX_DIGITS = 20
_PER_MILLISECOND = {
    TimeUnit.SECONDS: Decimal("0.001"),
    TimeUnit.MILLISECONDS: Decimal(1),
    TimeUnit.MICROSECONDS: Decimal(1000),
}


def read_time_ms(value: Any, unit: TimeUnit, time_format: str | None, zone: tzinfo) -> int:
    """Return a time in milliseconds since 1970.

    value: the text of a cell, or a number. time_format: format for `strptime`; None for ISO 8601.
    zone: time zone of text without an offset. Raises `ValueError` with a reason that completes the
    sentence "This time ...".
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("is neither text nor a number")
    text = str(value).strip()
    if len(text) > _MAX_CHARS:
        raise ValueError("is too long")
    if unit is TimeUnit.TEXT:
        return _text_ms(text, time_format, zone)
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"is not a number of {unit}") from None
    if not number.is_finite() or number.adjusted() >= _MAX_DIGITS:
        raise ValueError(f"is not a number of {unit}")
    return int(number / _PER_MILLISECOND[unit])


def _text_ms(text: str, time_format: str | None, zone: tzinfo) -> int:
    try:
        if time_format is None:
            time = datetime.fromisoformat(_iso(text))
        else:
            time = datetime.strptime(text, time_format)  # noqa: DTZ007
    except ValueError:
        written = "as ISO 8601" if time_format is None else f"in the format {time_format}"
        raise ValueError(f"is not written {written}") from None
    # Do not use `astimezone`: applying the offset may give a year that a `datetime` cannot hold.
    return ((time if time.tzinfo else time.replace(tzinfo=zone)) - _EPOCH) // _MILLISECOND


def _iso(text: str) -> str:
    """Join an offset that follows the time after a space, as databases write it."""
    date, _, rest = text.partition(" ")
    clock, _, offset = rest.partition(" ")
    if not offset:
        return text
    return f"{date}T{clock}{'Z' if offset in ('UTC', 'GMT') else offset}"
