"""Decides which events satisfy a match, by its kind, name and filters in a JSON definition."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from unicodedata import normalize

from tests.funnels.reference.history import Event

Json = Mapping[str, Any]
Value = tuple[str, str] | None
"""A scalar as its JSON type and its text, such as ("number", "5"); None if it is missing."""

KINDS = {
    "Pageview": "pageview",
    "Screen view": "screenview",
    "Event": "event",
    "Transaction": "transaction",
}


def matches(match: Json, event: Event) -> bool:
    return (
        event.kind == KINDS[match["type"]]
        and _has_name(match, event.name)
        and all(holds(item, value_of(event, item["property"])) for item in match["filters"])
    )


def _has_name(match: Json, name: str) -> bool:
    if match["type"] == "Event" and match["value"] == "*":
        return True
    if match["type"] != "Pageview":
        return bool(match["value"] == name)
    wildcards = {"**": ".*", "*": "[^/]*"}
    pieces = re.split(r"(\*\*|\*)", page_path(match["value"]))
    pattern = "".join(wildcards.get(piece) or re.escape(piece) for piece in pieces)
    return re.fullmatch(pattern, page_path(name), re.DOTALL) is not None


def page_path(path: str) -> str:
    """The path without query, fragment or trailing slash."""
    return re.split("[?#]", path, maxsplit=1)[0].removesuffix("/") or "/"


# -- Values --------------------------------------------------------------------------------------


def value_of(event: Event, key: str) -> Value:
    """The value of a property. `$...` is a built-in field, which counts as missing if empty."""
    if key == "$source":
        return scalar(event.source)
    if key.startswith("$trait."):
        return scalar(event.traits.get(key.removeprefix("$trait.")))
    if key.startswith("$"):
        return scalar(event.fields.get(key[1:]) or None)
    return scalar(event.properties.get(key))


def scalar(value: Any) -> Value:
    """A JSON value as its type and text. `1.0` equals the number `1`, up to 2^53."""
    if isinstance(value, bool):
        return "boolean", str(value).lower()
    if isinstance(value, str):
        return "string", normalize("NFC", value)
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
        return "number", str(int(value))
    if isinstance(value, int | float):
        return "number", repr(value)
    return None


def as_json(value: Value) -> Any:
    """The JSON value of a scalar; null if it is missing."""
    if value is None:
        return None
    kind, text = value
    return text if kind == "string" else json.loads(text)


# -- Filters -------------------------------------------------------------------------------------


def by_field(item: Json) -> Json:
    """A filter on `$cohort`, whose value is an ID, as a filter on the field of that cohort."""
    if item["property"] != "$cohort":
        return item
    return {**item, "property": f"$cohort.{item['value']}", "value": "in"}


NEGATIVE = {
    "not_equals": "equals",
    "not_in": "in",
    "not_contains": "contains",
    "not_matches_regex": "matches_regex",
    "not_between": "between",
    "is_not_set": "is_set",
}


def holds(item: Json, value: Value) -> bool:
    """Whether a value satisfies a filter. A missing value satisfies only negative operators."""
    operator, operand = item["operator"], item.get("value") or ""
    if operator in NEGATIVE:
        return not _holds(NEGATIVE[operator], operand, item["property"], value)
    return _holds(operator, operand, item["property"], value)


def _folded(text: str) -> str:
    """The text without its case, in NFC."""
    return normalize("NFC", text.casefold())


def _holds(operator: str, operand: str, key: str, value: Value) -> bool:
    """Whether a value satisfies an operator that is not negative."""
    if value is None:
        return False
    text, operand = value[1], normalize("NFC", operand)
    match operator:
        case "is_set":
            return True
        case "is_true":
            return text == "true"
        case "is_false":
            return text == "false"
        case "equals":
            return text == _whole(operand, key)
        case "in":
            return text in [_whole(_text(item), key) for item in json.loads(operand)]
        case "equals_ignore_case":
            return _folded(text) == _folded(_whole(operand, key))
        case "contains":
            return operand in text
        case "contains_ignore_case":
            return _folded(operand) in _folded(text)
        case "starts_with":
            return text.startswith(operand)
        case "ends_with":
            return text.endswith(operand)
        case "matches_regex":
            return re.search(operand, text, re.DOTALL) is not None
        case "before" | "after":
            return _is_in_order(operator, _time_of(value), _time_ms(operand))
        case "between":
            low, high = json.loads(operand)
            number = _number(text)
            return number is not None and float(low) <= number <= float(high)
        case _:
            return _compares(operator, _number(text), float(operand))


def _whole(operand: str, key: str) -> str:
    """The operand in the form to compare with; a page path is normalised like stored paths."""
    return page_path(operand) if key == "$path" and operand.startswith("/") else operand


def _text(item: Any) -> str:
    """Return a list item as text."""
    value = scalar(item)
    assert value is not None
    return value[1]


def _compares(operator: str, number: float | None, limit: float) -> bool:
    if number is None:
        return False
    return {
        "greater_than": number > limit,
        "greater_than_or_equal": number >= limit,
        "less_than": number < limit,
        "less_than_or_equal": number <= limit,
    }[operator]


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", text) else None


def _is_in_order(operator: str, time_ms: float | None, limit_ms: float | None) -> bool:
    if time_ms is None or limit_ms is None:
        return False
    return time_ms < limit_ms if operator == "before" else time_ms > limit_ms


def _time_of(value: tuple[str, str]) -> float | None:
    """The time in a property: a number is epoch milliseconds, a string an ISO 8601 time."""
    kind, text = value
    if kind == "number":
        return float(text)
    return _iso_ms(text) if kind == "string" else None


def _time_ms(operand: str) -> float | None:
    """The time in a filter's operand: epoch milliseconds, or an ISO 8601 time."""
    return float(operand) if re.fullmatch("-?[0-9]+", operand) else _iso_ms(operand)


_DATE = r"\d{4}-\d\d-\d\d"
_TIME = r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?(Z|[+-]([01]\d|2[0-3]):?[0-5]\d)?"


def _iso_ms(text: str) -> int | None:
    """Epoch milliseconds of an ISO 8601 date or time, truncated to whole milliseconds.

    A time without an offset is in UTC.
    """
    if not re.fullmatch(rf"{_DATE}([T ]{_TIME})?", text, re.ASCII):
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
