"""Filters: which operators there are, what the `value` of each must be, and how it is read.

A filter's value is always text; that of `in`, `not_in`, `between` and `not_between` is a JSON list.
"""

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationInfo, field_validator
from pydantic_core import from_json

from penstock.base.clock import parse_time
from penstock.base.scalar import number_text, plain_text
from penstock.funnels.definitions.builtins import BUILTIN_COLUMNS
from penstock.funnels.definitions.surroundings import Surroundings
from penstock.http.schema import Input, RuleBroken

MAX_KEY_BYTES = 200
MAX_LIST_ITEMS = 100
MAX_VALUE_BYTES = 16 * 1024

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_EPOCH_MS = re.compile(r"-?[0-9]{1,15}")
_ISO_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]([01][0-9]|2[0-3]):[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?")


class Operator(StrEnum):
    """How a filter compares. The negative ones and `is_not_set` also hold where the property is missing."""

    EQUALS = "equals"
    NOT_EQUALS = "not_equals"
    IN = "in"
    NOT_IN = "not_in"
    CONTAINS = "contains"
    NOT_CONTAINS = "not_contains"
    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"
    MATCHES_REGEX = "matches_regex"
    NOT_MATCHES_REGEX = "not_matches_regex"
    IS_SET = "is_set"
    IS_NOT_SET = "is_not_set"
    GREATER_THAN = "greater_than"
    GREATER_THAN_OR_EQUAL = "greater_than_or_equal"
    LESS_THAN = "less_than"
    LESS_THAN_OR_EQUAL = "less_than_or_equal"
    BETWEEN = "between"
    NOT_BETWEEN = "not_between"
    IS_TRUE = "is_true"
    IS_FALSE = "is_false"
    BEFORE = "before"
    AFTER = "after"


WITHOUT_VALUE = frozenset({Operator.IS_SET, Operator.IS_NOT_SET, Operator.IS_TRUE, Operator.IS_FALSE})
REGEX = frozenset({Operator.MATCHES_REGEX, Operator.NOT_MATCHES_REGEX})


def number_of(value: str) -> float:
    """The number of `greater_than` and its like, written as a decimal number."""
    if not _NUMBER.fullmatch(value):
        raise RuleBroken("bad_number", 'Must be a decimal number such as "5", "-0.25" or "1e3".')
    return _finite(float(value))


def range_of(value: str) -> tuple[float, float]:
    """The two ends of `between` and `not_between`, both included: a JSON list `[low, high]`."""
    ends = _json_list(value)
    if len(ends) != 2 or not all(_is_number(end) for end in ends):
        raise RuleBroken("bad_range", 'Must be a JSON list of two numbers, such as "[10, 20]".')
    low, high = (_finite(end) for end in ends)
    if low > high:
        raise RuleBroken("bad_range", "The first number must not be greater than the second; swap them.")
    return low, high


def texts_of(value: str) -> tuple[str, ...]:
    """The scalars of `in` and `not_in` as the text that properties are compared with: `["pro", 5, true]` is pro, 5, true."""
    items = _json_list(value)
    if not 1 <= len(items) <= MAX_LIST_ITEMS:
        raise RuleBroken("bad_list", f"Must hold 1 to {MAX_LIST_ITEMS} values.")
    return tuple(_text_of(item) for item in items)


def time_ms_of(value: str) -> int:
    """The moment of `before` and `after`, in epoch milliseconds. A date is its first moment; without an offset it is UTC."""
    if _EPOCH_MS.fullmatch(value):
        return int(value)
    try:
        moment = datetime.fromisoformat(value if _ISO_TIME.fullmatch(value) else "")
        return parse_time((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat())
    except ValueError:
        raise RuleBroken("not_a_time", 'Must be an ISO 8601 date or time such as "2026-05-01T12:00:00Z", or epoch milliseconds.') from None


def check_value(operator: Operator, value: str | None) -> None:
    """RuleBroken when the operator cannot take this value. None: the filter has none. A regex is only known to be text."""
    if operator in WITHOUT_VALUE:
        if value:
            raise RuleBroken("value_not_allowed", f"{operator} takes no value; leave it out.")
        return
    if value is None:
        raise RuleBroken("required", f"{operator} needs a value.")
    if len(value.encode()) > MAX_VALUE_BYTES:
        raise RuleBroken("too_long", f"Must be at most {MAX_VALUE_BYTES:,} bytes.")
    if "\0" in value:
        raise RuleBroken("control_character", "Must not hold NUL characters, which no property holds.")
    if read := _READERS.get(operator):
        read(value)


_READERS: Mapping[Operator, Callable[[str], object]] = {
    Operator.IN: texts_of,
    Operator.NOT_IN: texts_of,
    Operator.GREATER_THAN: number_of,
    Operator.GREATER_THAN_OR_EQUAL: number_of,
    Operator.LESS_THAN: number_of,
    Operator.LESS_THAN_OR_EQUAL: number_of,
    Operator.BETWEEN: range_of,
    Operator.NOT_BETWEEN: range_of,
    Operator.BEFORE: time_ms_of,
    Operator.AFTER: time_ms_of,
}
"""Operators whose value is more than plain text, and how it is read; reading it raises RuleBroken when it is not that."""


def _json_list(value: str) -> list[Any]:
    try:
        items = from_json(value, allow_inf_nan=False)
    except ValueError:
        items = None
    if not isinstance(items, list):
        raise RuleBroken("bad_list", 'Must be a JSON list in a string, such as "[\\"a\\", \\"b\\"]" or "[10, 20]".')
    return items


def _is_number(item: object) -> bool:
    return isinstance(item, int | float) and not isinstance(item, bool)


def _finite(number: int | float) -> float:
    try:
        number = float(number)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise RuleBroken("not_finite", "The number is too large.")
    return number


def _text_of(item: object) -> str:
    if isinstance(item, str):
        if "\0" in item:
            raise RuleBroken("control_character", "Must not hold NUL characters, which no property holds.")
        return item
    if isinstance(item, bool):
        return plain_text(item)
    if isinstance(item, int | float):
        _finite(item)
        return number_text(item)
    raise RuleBroken("bad_list", "Must hold strings, numbers, true and false alone; for missing values use is_not_set.")


def _property_key(key: str) -> str:
    if not 1 <= len(key.encode()) <= MAX_KEY_BYTES:
        raise RuleBroken("too_long" if key else "too_short", f"A property key has 1 to {MAX_KEY_BYTES} bytes.")
    if "\0" in key:
        raise RuleBroken("control_character", "A property key must not hold NUL characters.")
    return key


def _event_field(key: str) -> str:
    if key.startswith("$") and key not in BUILTIN_COLUMNS:
        raise RuleBroken("unknown_builtin", f"There is no such built-in field; there are {', '.join(BUILTIN_COLUMNS)}.")
    return key


def _own_property(key: str) -> str:
    if key.startswith("$"):
        raise RuleBroken("builtin_not_allowed", "Must be a property of the event itself, not a built-in field.")
    return key


EventField = Annotated[str, AfterValidator(_property_key), AfterValidator(_event_field)]
"""A property key, or the `$` name of a built-in field."""

OwnProperty = Annotated[str, AfterValidator(_property_key), AfterValidator(_own_property)]
"""A property key; built-in fields are refused."""


class FilterIn(Input):
    """One condition on a property of the event, as a client sends it."""

    property: EventField
    operator: Operator
    value: Annotated[
        str | None,
        Field(
            validate_default=True, description="Text; a JSON list for in, not_in, between and not_between. Absent for is_set and its like."
        ),
    ] = None

    @field_validator("value")
    @classmethod
    def _fits_operator(cls, value: str | None, info: ValidationInfo[Surroundings]) -> str | None:
        operator = info.data.get("operator")
        if operator is None:
            return value
        check_value(operator, value)
        if operator in REGEX and value is not None:
            info.context.check_regex(value)
        return value
