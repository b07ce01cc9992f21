"""Warnings about fields that are valid, but look wrong. The event is stored as sent."""

from typing import Any

from penstock.base.clock import looks_like_seconds
from penstock.events.validation import RawItem
from penstock.identity.model import Notice

TIMESTAMP_LOOKS_LIKE_SECONDS = Notice(
    "timestamp_looks_like_seconds",
    "The timestamp is a number below 100,000,000,000, so it looks like seconds. It was read as "
    "milliseconds, which is a time in the 1970s. Send epoch milliseconds or ISO 8601.",
)
COUNTRY_NOT_ISO = Notice(
    "country_not_iso",
    "country is not a two-letter code of ISO 3166-1, such as DE. It was stored as sent.",
)


def field_warnings(raw: RawItem) -> tuple[Notice, ...]:
    """The warnings about a validated item."""
    timestamp, country = raw.get("timestamp"), raw.get("country")
    warnings: tuple[Notice, ...] = ()
    if timestamp is not None and looks_like_seconds(timestamp):
        warnings += (TIMESTAMP_LOOKS_LIKE_SECONDS,)
    if country is not None and not _may_be_country_code(country):
        warnings += (COUNTRY_NOT_ISO,)
    return warnings


def _may_be_country_code(country: Any) -> bool:
    """Whether it is two letters. Which codes are assigned changes too often to check."""
    if not isinstance(country, str):
        return True
    return len(country) == 2 and country.isascii() and country.isalpha()
