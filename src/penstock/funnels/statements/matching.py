"""How a match and its filters are asked of the engine. Source: funnel semantics, "Matching".

Every function returns an SQL expression that is 0 or 1, never NULL; names of properties and values are bound.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from penstock.base.scalar import COMPOSITE, column_key, plain_text
from penstock.funnels.definitions.builtins import BUILTIN_COLUMNS
from penstock.funnels.definitions.model import Filter, Match, MatchType
from penstock.funnels.statements.binder import Binder

KINDS = {
    MatchType.PAGEVIEW: "pageview",
    MatchType.SCREEN_VIEW: "screenview",
    MatchType.EVENT: "event",
    MatchType.TRANSACTION: "transaction",
}

TYPES: Mapping[str, str] = {**{kind: str(match_type) for match_type, kind in KINDS.items()}, "provider": "Provider"}
"""What a kind of event is called. Provider: one of a payment provider that no match can ask for."""

_NUMBER = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_MOMENT = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]+)?)?(Z|[+-]([01][0-9]|2[0-3]):?[0-5][0-9])?)?$"
)


def property_text(name: str, binder: Binder) -> str:
    """The tagged text of a property (`penstock.base.scalar`); '' where it is absent."""
    if name in BUILTIN_COLUMNS:
        column = _builtin(name)
        return f"if({column} = '', '', concat('s', {column}))"
    return f"ifNull(events.scalars.{binder.bind('Identifier', column_key(name))}.:String, '')"


def property_hash(name: str, binder: Binder) -> str:
    """A typed value as 64 bits (`penstock.base.scalar.value_hash`); 0 where it is missing."""
    if name in BUILTIN_COLUMNS:
        column = _builtin(name)
        text = f"concat('s', {column})"
        return f"if({column} = '', 0, {text_hash(text)})"
    return f"reinterpretAsUInt64(ifNull(events.hashes.{binder.bind('Identifier', column_key(name))}.:Int64, 0))"


def property_sent(name: str, binder: Binder) -> str:
    """Whether an event carries a property of its own at all, be it an object or an array; null counts as not sent."""
    return f"isNotNull(events.scalars.{binder.bind('Identifier', column_key(name))}.:String)"


def text_hash(tagged_text: str) -> str:
    """The hash of a built-in field, which the engine takes itself."""
    return f"cityHash64({tagged_text})"


def _builtin(name: str) -> str:
    column = BUILTIN_COLUMNS[name]
    return f"toString(events.{column})"


def present(tagged_text: str) -> str:
    """Whether a tagged text is a scalar."""
    return f"{tagged_text} NOT IN ('', '{COMPOSITE}')"


def match_condition(match: Match, binder: Binder) -> str:
    """Whether an event is what a match asks for: kind, name and all filters."""
    parts = [f"events.kind = '{KINDS[match.type]}'", _name_condition(match, binder)]
    parts += [filter_condition(item, binder) for item in match.filters]
    return "(" + " AND ".join(parts) + ")"


def _name_condition(match: Match, binder: Binder) -> str:
    if is_pattern(match):
        return f"match(events.name, {binder.bind('String', path_regex(match.value))})"
    return f"events.name = {binder.bind('String', match.value)}"


def is_pattern(match: Match) -> bool:
    return match.type is MatchType.PAGEVIEW and "*" in match.value


def path_regex(pattern: str) -> str:
    """RE2 of a page pattern: `*` is any run inside one path segment, `**` any run at all.

    >>> path_regex("/blog/*")
    '^/blog/[^/]*$'
    """
    parts = re.split(r"(\*\*|\*)", pattern)
    spelled = {"**": ".*", "*": "[^/]*"}
    return "^" + "".join(spelled.get(part) or re.escape(part) for part in parts) + "$"


def filter_condition(item: Filter, binder: Binder) -> str:
    """Whether a property of an event satisfies a filter. A missing one satisfies only the negative operators and `is_not_set`."""
    positive = _NEGATIONS.get(item.operator)
    if positive is not None:
        return f"NOT {filter_condition(Filter(item.property, positive, item.value), binder)}"
    text = property_text(item.property, binder)
    return f"({_positive_condition(item, text, binder)})"


_NEGATIONS = {
    "not_equals": "equals",
    "not_in": "in",
    "not_contains": "contains",
    "not_matches_regex": "matches_regex",
    "not_between": "between",
    "is_not_set": "is_set",
}
_COMPARISONS = {
    "greater_than": ">",
    "greater_than_or_equal": ">=",
    "less_than": "<",
    "less_than_or_equal": "<=",
}


def _positive_condition(item: Filter, tagged_text: str, binder: Binder) -> str:
    plain = f"substring({tagged_text}, 2)"
    match item.operator:
        case "equals":
            return _one_of([item.value], tagged_text, binder)
        case "in":
            return _one_of([plain_text(value) for value in json.loads(item.value)], tagged_text, binder)
        case "is_true":
            return _one_of(["true"], tagged_text, binder)
        case "is_false":
            return _one_of(["false"], tagged_text, binder)
        case "is_set":
            return present(tagged_text)
        case "contains":
            condition = f"position({plain}, {binder.bind('String', item.value)}) > 0"
        case "starts_with":
            condition = f"startsWith({plain}, {binder.bind('String', item.value)})"
        case "ends_with":
            condition = f"endsWith({plain}, {binder.bind('String', item.value)})"
        case "matches_regex":
            condition = f"match({plain}, {binder.bind('String', item.value)})"
        case "between":
            low, high = json.loads(item.value)
            number = _number(plain)
            condition = f"ifNull({number} BETWEEN {binder.bind('Float64', float(low))} AND {binder.bind('Float64', float(high))}, 0)"
        case "before" | "after":
            sign = "<" if item.operator == "before" else ">"
            condition = f"ifNull({_moment(tagged_text)} {sign} {binder.bind('Float64', float(moment_ms(item.value)))}, 0)"
        case operator:
            condition = f"ifNull({_number(plain)} {_COMPARISONS[operator]} {binder.bind('Float64', float(item.value))}, 0)"
    return f"{present(tagged_text)} AND {condition}"


def _one_of(texts: list[str], tagged_text: str, binder: Binder) -> str:
    """Equality of plain texts, whatever the type: each text with each tag."""
    wanted = [tag + text for text in texts for tag in "snb"]
    return f"{tagged_text} IN {binder.bind('Array(String)', wanted)}"


def _number(plain: str) -> str:
    return f"if(match({plain}, '{_sql(_NUMBER)}'), toFloat64OrNull({plain}), NULL)"


def _moment(tagged_text: str) -> str:
    """Milliseconds since 1970 of a number (epoch milliseconds) or of an ISO 8601 text, as a float; NULL for anything else."""
    plain = f"substring({tagged_text}, 2)"
    parsed = f"toFloat64(toUnixTimestamp64Milli(parseDateTime64BestEffortOrNull({plain}, 3, 'UTC')))"
    return (
        f"multiIf(startsWith({tagged_text}, 'n'), toFloat64OrNull({plain}), "
        f"startsWith({tagged_text}, 's') AND match({plain}, '{_sql(_MOMENT)}'), {parsed}, NULL)"
    )


def _sql(regex: str) -> str:
    """A regex of this module inside a quoted SQL text."""
    return regex.replace("\\", "\\\\")


def moment_ms(value: str) -> int:
    """Milliseconds since 1970 of a `before` or `after` value: an ISO 8601 date or time (UTC without offset), or epoch milliseconds."""
    if re.fullmatch(r"-?[0-9]+", value):
        return int(value)
    if not re.fullmatch(_MOMENT[1:-1], value):
        raise ValueError("is neither an ISO 8601 date or time nor epoch milliseconds")
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
