"""Matches and their filters as SQL conditions. Source: funnel semantics, "Matching".

Each condition is 0 or 1, never NULL. Property names and values are bound parameters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from re import escape

from penstock.base.payment_providers import Provider
from penstock.base.scalar import COMPOSITE, column_key, tagged, value_hash
from penstock.base.unicode_text import composed
from penstock.funnels.definitions.builtins import (
    BUILTIN_COLUMNS,
    BUILTIN_FIELDS,
    FIRST_TIME,
    IN_COHORT,
    OUT_OF_COHORT,
    TOUCH_FIELDS,
    cohort_of,
    trait_of,
)
from penstock.funnels.definitions.model import Filter, Match, MatchType
from penstock.funnels.statements.binder import Binder
from penstock.funnels.statements.query import Plan
from penstock.funnels.statements.sources import event_scope, joined_events, visitor_key

KINDS = {
    MatchType.PAGEVIEW: "pageview",
    MatchType.SCREEN_VIEW: "screenview",
    MatchType.EVENT: "event",
    MatchType.TRANSACTION: "transaction",
}

TYPES: Mapping[str, str] = {
    **{kind: str(match_type) for match_type, kind in KINDS.items()},
    "provider": "Provider",
}
"""Display name of each kind of event. Matches cannot select payment provider events."""

KINDS_BY_TYPE: Mapping[str, str] = {text: kind for kind, text in TYPES.items()}

_NUMBER = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_YEAR = r"([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_ISO_TIME = (
    rf"^{_YEAR}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]+)?)?"
    r"(Z|[+-]([01][0-9]|2[0-3]):?[0-5][0-9])?)?$"
)
# The digits are restricted, because the engine's parser turns a year, month or day of 0 into
# another date.


def property_text(name: str, binder: Binder) -> str:
    """Return the tagged text of a property (`penstock.base.scalar`); '' if it is absent."""
    if name in BUILTIN_FIELDS:
        column = _builtin(name)
        return f"if({column} = '', '', concat('s', {column}))"
    if (trait := trait_of(name)) is not None:
        return f"traits.texts[{binder.bind('String', trait)}]"
    if (cohort := cohort_of(name)) is not None:
        is_member = f"has(saved_cohorts.ids, {binder.bind('String', cohort)})"
        return f"if({is_member}, 's{IN_COHORT}', 's{OUT_OF_COHORT}')"
    key = binder.bind("Identifier", column_key(name))
    return f"ifNull(events.scalars.{key}.:String, '')"


def property_hash(name: str, binder: Binder) -> str:
    """Return a typed value as 64 bits (`penstock.base.scalar.value_hash`); 0 if it is missing."""
    if name in BUILTIN_FIELDS:
        column = _builtin(name)
        text = f"concat('s', {column})"
        return f"if({column} = '', 0, {text_hash(text)})"
    if has_engine_hash(name):
        text = property_text(name, binder)
        return f"if({text} = '', 0, {text_hash(text)})"
    key = binder.bind("Identifier", column_key(name))
    return f"reinterpretAsUInt64(ifNull(events.hashes.{key}.:Int64, 0))"


def property_sent(name: str, binder: Binder) -> str:
    """Whether an event has this property with any value except null, even an object or array."""
    return f"isNotNull(events.scalars.{binder.bind('Identifier', column_key(name))}.:String)"


def is_whole_second(binder: Binder) -> str:
    """Whether an event's time stands for a whole second. Source: semantics, "Whole seconds"."""
    names = [provider.value for provider in Provider if provider.whole_seconds]
    hashes = [value_hash(tagged(name)) % 2**64 for name in names]
    sent = property_hash("provider", binder)
    return f"(events.source = 'provider' AND {sent} IN {binder.bind('Array(UInt64)', hashes)})"


def has_engine_hash(name: str) -> bool:
    """Whether the engine computes the hashes of a property's values (`text_hash`)."""
    return name in BUILTIN_FIELDS or trait_of(name) is not None or cohort_of(name) is not None


def text_hash(tagged_text: str) -> str:
    """Return the hash of the tagged text of a field, trait or cohort, computed by the engine."""
    return f"cityHash64({tagged_text})"


def _builtin(name: str) -> str:
    """Return a built-in field's text. Touch fields are in relations joined with the events."""
    if name in TOUCH_FIELDS:
        which, column = TOUCH_FIELDS[name]
        return f"{which}_touches.{column}"
    return f"toString(events.{BUILTIN_COLUMNS[name]})"


def match_condition(match: Match, plan: Plan) -> str:
    """Whether an event has a match's kind and name and satisfies all of its filters."""
    binder = plan.binder
    parts = [f"events.kind = '{KINDS[match.type]}'", _name_condition(match, binder)]
    parts += [
        filter_condition(item, binder) for item in match.filters if item.property != FIRST_TIME
    ]
    others = " AND ".join(parts)
    parts += [
        _holds(item, _Property(_first_time_text(others, plan), binder))
        for item in match.filters
        if item.property == FIRST_TIME
    ]
    return "(" + " AND ".join(parts) + ")"


def _first_time_text(condition: str, plan: Plan) -> str:
    """Return the tagged text of `$first_time`: whether an event is its visitor's first of all that
    satisfy the condition. At equal times, the event that arrived first is the first.
    """
    firsts = f"""
        SELECT argMin(events.event_id, tuple(events.occurred_at, events.event_id))
        FROM {joined_events(plan)}
        WHERE {event_scope(plan)} AND {condition} GROUP BY {visitor_key(plan)}"""
    return f"if(events.event_id IN ({firsts}), 'btrue', 'bfalse')"


def _name_condition(match: Match, binder: Binder) -> str:
    if match.accepts_any_name:
        return "1"
    if match.is_pattern:
        return f"match(events.name, {binder.bind('String', path_regex(match.value))})"
    return f"events.name = {binder.bind('String', match.value)}"


def path_regex(pattern: str) -> str:
    """Return the RE2 pattern of a page path. `*` stays within a path segment, and `**` does not.

    >>> path_regex("/blog/*")
    '^/blog/[^/]*$'
    """
    runs = ("[^/]*".join(map(escape, run.split("*"))) for run in pattern.split("**"))
    return "^" + ".*".join(runs) + "$"


def filter_condition(item: Filter, binder: Binder) -> str:
    """Whether a property of an event satisfies a filter.

    A missing property satisfies only the negative operators and `is_not_set`.
    """
    return _holds(item, _Property(property_text(item.property, binder), binder))


def _holds(item: Filter, compared: "_Property") -> str:
    traits = item.comparison.operator.traits
    condition = traits.condition(compared, item.comparison.operand)
    return f"NOT ({condition})" if traits.negative else f"({condition})"


@dataclass(frozen=True, slots=True)
class _Property:
    """A property as operators compare it (`PropertySql`). text: its tagged text."""

    text: str
    binder: Binder

    @property
    def present(self) -> str:
        return f"{self.text} NOT IN ('', '{COMPOSITE}')"

    @property
    def plain(self) -> str:
        return f"substring({self.text}, 2)"

    @property
    def number(self) -> str:
        plain = self.plain
        return f"if(match({plain}, '{_sql(_NUMBER)}'), toFloat64OrNull({plain}), NULL)"

    @property
    def time_ms(self) -> str:
        """SQL for the milliseconds since 1970 in a number or an ISO 8601 text."""
        text, plain = self.text, self.plain
        time = f"parseDateTime64BestEffortOrNull({plain}, 3, 'UTC')"
        parsed = f"toFloat64(toUnixTimestamp64Milli({time}))"
        return (
            f"multiIf(startsWith({text}, 'n'), toFloat64OrNull({plain}), "
            f"startsWith({text}, 's') AND match({plain}, '{_sql(_ISO_TIME)}'), {parsed}, NULL)"
        )

    def is_one_of(self, texts: Sequence[str]) -> str:
        """Compare plain strings of any JSON type, by looking up each string with each type tag."""
        tagged_texts = [tag + composed(text) for text in texts for tag in "snb"]
        return f"{self.text} IN {self.binder.bind('Array(String)', tagged_texts)}"

    def bind(self, value: str | float) -> str:
        if isinstance(value, str):
            return self.binder.bind("String", composed(value))
        return self.binder.bind("Float64", float(value))


def _sql(regex: str) -> str:
    """Return a regular expression of this module, escaped for a quoted SQL string."""
    return regex.replace("\\", "\\\\")
