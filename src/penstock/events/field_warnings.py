"""Warnings about fields that are valid but look wrong. The event is stored as sent."""

from typing import Any

from penstock.events.validation import RawItem
from penstock.identity.model import Notice

ID_WAS_A_NUMBER = Notice(
    "id_was_a_number",
    "An ID was a number and was stored as its decimal text. Send IDs as texts: languages round "
    "large numbers.",
)
COUNTRY_NOT_ISO = Notice(
    "country_not_iso",
    "country is not a two-letter code of ISO 3166-1, such as DE. It was stored as sent.",
)
TEXT_CUT = Notice(
    "text_cut",
    "A path, URL, referrer, title or campaign parameter was longer than its limit. It was cut, and "
    "ends with ….",
)

_IDS = (
    *("visitorId", "userId", "eventId", "transactionId", "externalSessionId"),
    *("dedupeKey", "sessionId"),
)


def field_warnings(raw: RawItem) -> tuple[Notice, ...]:
    """Return the warnings about a validated item."""
    of_ids = (ID_WAS_A_NUMBER,) if has_number_as_id(raw) else ()
    return of_ids + country_warnings(raw.get("country"))


def country_warnings(country: Any) -> tuple[Notice, ...]:
    """Return the warning about a valid country, if any."""
    is_plausible = country is None or _may_be_country_code(country)
    return () if is_plausible else (COUNTRY_NOT_ISO,)


def has_number_as_id(raw: RawItem) -> bool:
    """Whether an ID of a validated item was sent as a number."""
    return int in map(type, map(raw.get, _IDS))


def _may_be_country_code(country: Any) -> bool:
    """Whether the value is two letters. The list of assigned codes changes too often to check."""
    if not isinstance(country, str):
        return True
    return len(country) == 2 and country.isascii() and country.isalpha()
