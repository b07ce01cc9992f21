"""Reading what a provider sent: nothing is where it should be until we looked."""

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.base.clock import parse_time
from penstock.providers.model import Meaning, NotAnEvent
from penstock.providers.money import currency_code, main_units

MAX_ID_BYTES = 180
"""The longest ID of a provider's that we take; with the provider's name before it, it still fits where IDs go."""

Told = dict[str, str | int | float | bool]


def at(value: Any, path: str) -> Any:
    """What stands at `a.b.c`; None when a part of the way is missing."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def id_text(value: Any) -> str | None:
    """A provider's ID, which may be an object that has it as `id`; None for what is none."""
    text = value.get("id") if isinstance(value, dict) else value
    if not isinstance(text, str) or not text or "\x00" in text or len(text.encode()) > MAX_ID_BYTES:
        return None
    return text


def first_id(value: Any, *paths: str) -> str | None:
    return next((found for path in paths if (found := id_text(at(value, path)))), None)


def needed_id(value: Any, what: str) -> str:
    text = id_text(value) if isinstance(value, str) else None
    if text is None:
        raise NotAnEvent(f"{what} must be a text of 1 to {MAX_ID_BYTES} bytes.")
    return text


def needed_object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise NotAnEvent(f"{what} must be an object.")
    return value


def moment_ms(value: Any, what: str) -> int:
    """Milliseconds of seconds since 1970, or of an ISO 8601 time with an offset."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value * 1000
    if isinstance(value, str) and len(value) <= 64 and not value.strip().lstrip("-").isdigit():
        try:
            return parse_time(value)
        except (ValueError, OverflowError):
            pass
    raise NotAnEvent(f"{what} must be a time.")


def email_of(value: Any, paths: Iterable[str]) -> str | None:
    found = (at(value, path) for path in paths)
    return next((text.strip().lower() for text in found if isinstance(text, str) and "@" in text), None)


def details(thing: Any, paths: Mapping[str, tuple[str, ...]]) -> Told:
    """Properties of a provider's object. paths: property -> where it may stand."""
    return {name: text for name, places in paths.items() if (text := first_id(thing, *places)) is not None}


def money(thing: Any, meaning: Meaning | None, already: Any = None) -> Told:
    """`amount` and `currency`, where the event is about an amount. already: how much of it earlier events told."""
    currency = currency_code(at(thing, "currency"))
    if meaning is None or meaning.amount is None or currency is None:
        return {}
    minor = at(thing, meaning.amount)
    if isinstance(minor, int) and isinstance(already, int):
        minor -= already
    amount = main_units(minor, currency)
    return {} if amount is None else {"amount": amount, "currency": currency}
