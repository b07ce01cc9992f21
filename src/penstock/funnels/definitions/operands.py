"""Kinds of operands: how the value of a filter is parsed, entered and described.

A filter's `value` is always text; lists and ranges are JSON lists in a string.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic_core import from_json

from penstock.base.clock import TimeOutOfRange, iso, parse_time
from penstock.base.paths import canonical_spelling, page_path_or_text
from penstock.base.patterns import Pattern
from penstock.base.scalar import number_text, plain_text
from penstock.http.schema import RuleBroken

T = TypeVar("T")

MAX_LIST_ITEMS = 100

_TIME = Pattern(
    r"-?[0-9]{1,15}|[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]+)?)?"
    r"(Z|[+-]([01][0-9]|2[0-3]):?[0-5][0-9])?)?"
)
"""Pattern for the time formats that the engine can read in properties."""
_NUMBER_RANGE = "Numbers must be between -1.79e308 and 1.79e308."
_NUMBER = Pattern(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class NumberRange(NamedTuple):
    """A range that includes both ends. low is at most high."""

    low: float
    high: float


class Regex(str):
    """An RE2 pattern. The engine's limits for a statement depend on its patterns
    (`queries.engine`).
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Regex({super().__repr__()})"


@dataclass(frozen=True, slots=True)
class Operand(Generic[T]):
    """A kind of operand.

    input: the name of the builder's input for it (static/builder/filters.js).
    group: the builder's heading for operators that take it.
    documented: text of the `value` cell in docs/funnels.md.
    parse: converts text to an operand, or raises RuleBroken.
    words: describes an operand for people.
    normalise_path: rewrites an operand in the same way as stored page paths.
    """

    input: str
    group: str
    documented: str
    parse: Callable[[str], T]
    words: Callable[[T], str]
    normalise_path: Callable[[T], T] = lambda operand: operand


def check_storable(text: str) -> str:
    """Return the text. Raises RuleBroken if it contains NUL or invalid Unicode."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise RuleBroken(
            "control_character", "Must be valid Unicode without NUL; no property has other text."
        )
    return text


def _parse_number(value: str) -> float:
    if not _NUMBER.fullmatch(value):
        raise RuleBroken("bad_number", 'Must be a decimal number such as "5", "-0.25" or "1e3".')
    return _finite(float(value))


def _parse_range(value: str) -> NumberRange:
    ends = _json_list(value)
    if len(ends) != 2 or not all(_is_number(end) for end in ends):
        raise RuleBroken("bad_range", 'Must be a JSON list of two numbers, such as "[10, 20]".')
    low, high = (_finite(end) for end in ends)
    if low > high:
        raise RuleBroken(
            "bad_range", "The first number must not be greater than the second. Swap them."
        )
    return NumberRange(low, high)


def _parse_texts(value: str) -> tuple[str, ...]:
    """Convert a JSON list to strings: `["pro", 5, true]` gives pro, 5 and true."""
    items = _json_list(value)
    if not 1 <= len(items) <= MAX_LIST_ITEMS:
        raise RuleBroken("bad_list", f"Must contain 1 to {MAX_LIST_ITEMS} values.")
    return tuple(_text_of(item) for item in items)


def _parse_time_ms(value: str) -> int:
    """Convert a time to ms since 1970. Dates mean midnight; times without an offset are UTC."""
    try:
        return parse_time(value if _TIME.fullmatch(value) else "", naive_is_utc=True)
    except TimeOutOfRange:
        raise RuleBroken("out_of_range", "Must be in the years 1 to 9999.") from None
    except ValueError:
        raise RuleBroken(
            "not_a_time",
            'Must be an ISO 8601 date or time such as "2026-05-01T12:00:00Z", '
            "or epoch milliseconds.",
        ) from None


def _json_list(value: str) -> list[Any]:
    try:
        items = from_json(value, allow_inf_nan=False)
    except ValueError:
        items = None
    if not isinstance(items, list):
        raise RuleBroken(
            "bad_list",
            'Must be a JSON list in a string, such as "[\\"a\\", \\"b\\"]" or "[10, 20]".',
        )
    return items


def _is_number(item: object) -> bool:
    return isinstance(item, int | float) and not isinstance(item, bool)


def _finite(number: int | float) -> float:
    try:
        number = float(number)
    except OverflowError:
        raise RuleBroken("out_of_range", _NUMBER_RANGE) from None
    if not math.isfinite(number):
        raise RuleBroken("not_finite", _NUMBER_RANGE)
    return number


def _text_of(item: object) -> str:
    if isinstance(item, str):
        return check_storable(item)
    if isinstance(item, bool):
        return plain_text(item)
    if isinstance(item, int | float):
        _finite(item)
        return number_text(item)
    raise RuleBroken(
        "bad_list",
        "May contain only strings, numbers, true and false. Use is_not_set for missing values.",
    )


TEXT = Operand("text", "Text", "text", parse=str, words=str, normalise_path=page_path_or_text)
"""The whole text of a property."""
PART = replace(TEXT, normalise_path=canonical_spelling)
"""Part of a property's text."""
REGEX = Operand(
    "regex",
    "Text",
    "[RE2](https://github.com/google/re2/wiki/Syntax) expression",
    parse=Regex,
    words=str,
)
LIST = Operand(
    "list",
    "Text",
    f'JSON list of 1 to {MAX_LIST_ITEMS} scalars, such as `"[\\"pro\\", 5]"`',
    parse=_parse_texts,
    words=", ".join,
    normalise_path=lambda texts: tuple(map(page_path_or_text, texts)),
)
"""A list of strings, one of which the property's text must equal."""
NONE = Operand("none", "Presence", "none", parse=lambda _: None, words=lambda _: "")
NUMBER = Operand(
    "number",
    "Number",
    'decimal number, such as `"19.99"`',
    parse=_parse_number,
    words=number_text,
)
RANGE = Operand(
    "range",
    "Number",
    'JSON list of two numbers, such as `"[10, 20]"`',
    parse=_parse_range,
    words=lambda ends: " and ".join(map(number_text, ends)),
)
TIME = Operand(
    "time",
    "Time",
    "ISO 8601 date or time, or epoch milliseconds",
    parse=_parse_time_ms,
    words=iso,
)
"""A time in milliseconds since 1970."""
