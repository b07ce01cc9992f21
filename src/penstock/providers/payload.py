"""Reads fields of a provider's payload. Any field may be missing or have another type."""

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.base.clock import parse_time
from penstock.base.patterns import is_integer
from penstock.providers.model import EventMapping, NotAnEvent, Properties
from penstock.providers.money import currency_code, main_units

MAX_ID_BYTES = 180
"""Maximum length of a provider's ID, in bytes. This leaves room for the provider's name in front of
it.
"""


def value_at(value: Any, path: str) -> Any:
    """Return the value at a path such as `a.b.c`, or None if part of the path is missing."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def id_text(value: Any) -> str | None:
    """Return the provider's ID from a string, or from an object with an `id`; None for anything
    else.
    """
    text = value.get("id") if isinstance(value, dict) else value
    if not isinstance(text, str) or not text or "\x00" in text or len(text.encode()) > MAX_ID_BYTES:
        return None
    return text


def first_id(value: Any, *paths: str) -> str | None:
    return next((text for path in paths if (text := id_text(value_at(value, path)))), None)


def require_id(value: Any, field: str) -> str:
    text = id_text(value) if isinstance(value, str) else None
    if text is None:
        raise NotAnEvent(f"{field} must be a string of 1 to {MAX_ID_BYTES} bytes.")
    return text


def require_object(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise NotAnEvent(f"{field} must be an object.")
    return value


def time_ms(value: Any, field: str) -> int:
    """Parse a time in integer seconds or ISO 8601 with an offset. Returns milliseconds since 1970.

    Raises `NotAnEvent` for anything else.
    """
    is_seconds = isinstance(value, int) and not isinstance(value, bool)
    if is_seconds or (isinstance(value, str) and not is_integer(value.strip())):
        try:
            return parse_time(value * 1000 if is_seconds else value)
        except ValueError:
            pass
    raise NotAnEvent(f"{field} must be a time.")


def find_email(value: Any, paths: Iterable[str]) -> str | None:
    """Return the first email address at any of the paths, in lower case."""
    texts = (value_at(value, path) for path in paths)
    return next(
        (text.strip().lower() for text in texts if isinstance(text, str) and "@" in text), None
    )


def id_properties(payload: Any, paths: Mapping[str, tuple[str, ...]]) -> Properties:
    """Extract a payload's IDs as properties. paths: for each property, the paths to try."""
    return {
        name: text
        for name, candidates in paths.items()
        if (text := first_id(payload, *candidates)) is not None
    }


def amount_properties(
    payload: Any, mapping: EventMapping | None, already_reported: Any = None
) -> Properties:
    """Return the properties `amount` and `currency`; nothing for an event without an amount.

    already_reported: the amount in minor units that earlier events reported.
    """
    currency = currency_code(value_at(payload, "currency"))
    if mapping is None or mapping.amount is None or currency is None:
        return {}
    minor = value_at(payload, mapping.amount)
    if isinstance(minor, int) and isinstance(already_reported, int):
        minor -= already_reported
    amount = main_units(minor, currency)
    return {} if amount is None else {"amount": amount, "currency": currency}
