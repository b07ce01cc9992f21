"""Filters as clients send them, and the one parser of their values.

A filter's `value` is always text; for `in`, `not_in`, `between` and `not_between` a JSON list.
"""

import math
from collections.abc import Callable
from typing import Annotated, Any, assert_never

from pydantic import AfterValidator
from pydantic_core import from_json

from penstock.base.clock import TimeOutOfRange, parse_time
from penstock.base.patterns import Pattern
from penstock.base.scalar import number_text, plain_text
from penstock.funnels.definitions.builtins import BUILTIN_FIELDS
from penstock.funnels.definitions.operators import (
    Comparison,
    ListComparison,
    NumberComparison,
    NumberRange,
    Operator,
    RangeComparison,
    RegexComparison,
    StateComparison,
    TextComparison,
    TimeComparison,
)
from penstock.http.schema import RuleBroken

MAX_KEY_BYTES = 200
MAX_LIST_ITEMS = 100
MAX_VALUE_BYTES = 16 * 1024

_TIME = Pattern(
    r"-?[0-9]{1,15}|[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]+)?)?"
    r"(Z|[+-]([01][0-9]|2[0-3]):?[0-5][0-9])?)?"
)
"""The times that the engine reads in properties are spelled in these ways."""
_NUMBER_RANGE = "Numbers must be between -1.79e308 and 1.79e308."
_NUMBER = Pattern(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def parse_comparison(
    operator: Operator, value: str | None, check_regex: Callable[[str], None]
) -> Comparison:
    """The one parser of filter values, for what clients send and for what is stored.

    value: text; None where there is none. check_regex: raises RuleBroken for a pattern that the
    engine cannot compile. RuleBroken when the operator does not take this value.
    """
    match operator:
        case Operator.IS_SET | Operator.IS_NOT_SET | Operator.IS_TRUE | Operator.IS_FALSE:
            if value:
                raise RuleBroken("value_not_allowed", f"{operator} takes no value; leave it out.")
            return StateComparison(operator)
        case (
            Operator.EQUALS
            | Operator.NOT_EQUALS
            | Operator.CONTAINS
            | Operator.NOT_CONTAINS
            | Operator.STARTS_WITH
            | Operator.ENDS_WITH
        ):
            return TextComparison(operator, _text(operator, value))
        case Operator.MATCHES_REGEX | Operator.NOT_MATCHES_REGEX:
            pattern = _text(operator, value)
            check_regex(pattern)
            return RegexComparison(operator, pattern)
        case Operator.IN | Operator.NOT_IN:
            return ListComparison(operator, _parse_texts(_text(operator, value)))
        case (
            Operator.GREATER_THAN
            | Operator.GREATER_THAN_OR_EQUAL
            | Operator.LESS_THAN
            | Operator.LESS_THAN_OR_EQUAL
        ):
            return NumberComparison(operator, _parse_number(_text(operator, value)))
        case Operator.BETWEEN | Operator.NOT_BETWEEN:
            return RangeComparison(operator, _parse_range(_text(operator, value)))
        case Operator.BEFORE | Operator.AFTER:
            return TimeComparison(operator, _parse_time_ms(_text(operator, value)))
        case _:
            assert_never(operator)


def _text(operator: Operator, value: str | None) -> str:
    """A value that any operator with an operand can take."""
    if value is None:
        raise RuleBroken("required", f"{operator} needs a value.")
    if len(value.encode("utf-8", "surrogatepass")) > MAX_VALUE_BYTES:
        raise RuleBroken("too_long", f"Must be at most {MAX_VALUE_BYTES:,} bytes.")
    return _storable(value)


def _storable(text: str) -> str:
    """The text, unless no property can hold it and no statement can carry it."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise RuleBroken(
            "control_character", "Must be valid Unicode without NUL, or it matches no property."
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
            "bad_range", "The first number must not be greater than the second; swap them."
        )
    return NumberRange(low, high)


def _parse_texts(value: str) -> tuple[str, ...]:
    """The texts that properties are compared with: `["pro", 5, true]` gives pro, 5, true."""
    items = _json_list(value)
    if not 1 <= len(items) <= MAX_LIST_ITEMS:
        raise RuleBroken("bad_list", f"Must contain 1 to {MAX_LIST_ITEMS} values.")
    return tuple(_text_of(item) for item in items)


def _parse_time_ms(value: str) -> int:
    """Milliseconds since 1970. A date means its first moment; a time without an offset is UTC."""
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
        return _storable(item)
    if isinstance(item, bool):
        return plain_text(item)
    if isinstance(item, int | float):
        _finite(item)
        return number_text(item)
    raise RuleBroken(
        "bad_list",
        "May contain only strings, numbers, true and false; for missing values use is_not_set.",
    )


def check_event_field(key: str) -> str:
    """The key itself, if an event can have such a field; a validator."""
    if key.startswith("$") and key not in BUILTIN_FIELDS:
        known = ", ".join(BUILTIN_FIELDS)
        raise RuleBroken(
            "unknown_builtin", f"There is no such built-in field; the fields are {known}."
        )
    return _check_property_key(key)


def _check_property_key(key: str) -> str:
    if not 1 <= len(key.encode("utf-8", "surrogatepass")) <= MAX_KEY_BYTES:
        raise RuleBroken(
            "too_long" if key else "too_short", f"A property key has 1 to {MAX_KEY_BYTES} bytes."
        )
    return _storable(key)


def _check_own_property(key: str) -> str:
    if key.startswith("$"):
        raise RuleBroken(
            "builtin_not_allowed", "Must be a property of the event itself, not a built-in field."
        )
    return _check_property_key(key)


EventField = Annotated[str, AfterValidator(check_event_field)]
"""A property key, or the `$` name of a built-in field."""

OwnProperty = Annotated[str, AfterValidator(_check_own_property)]
"""A property key; built-in fields are refused."""
