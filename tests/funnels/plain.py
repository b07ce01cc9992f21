"""Funnels in plain Python: a second evaluation, written from the counting rules alone, that the engine's statement is held against.

It shares with the engine the definition's types and the typed scalars, nothing else, and prefers the rules' own words to speed.
"R7" and the like are the source's attempt counting rules.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Any

from penstock.base.paging import Page
from penstock.base.scalar import MISSING, Scalar, plain_text, tagged, untagged
from penstock.funnels.model import CountingUnit, Definition, Filter, Match, MatchType, Row

KINDS = {
    MatchType.PAGEVIEW: "pageview",
    MatchType.SCREEN_VIEW: "screenview",
    MatchType.EVENT: "event",
    MatchType.TRANSACTION: "transaction",
}
MAX_NUMBER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Event:
    """One stored event. name: path, screen, event name or transaction event. fields: `country` for the built-in `$country`, and so on."""

    event_id: str
    website_id: str
    kind: str
    name: str
    at_ms: int
    visitor_id: str
    scope_id: str
    source: str = "browser"
    verified: bool = False
    properties: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class History:
    """All that is stored. merges: (scope, absorbed visitor) -> canonical visitor, chains flattened."""

    events: tuple[Event, ...]
    merges: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def visitor(self, event: Event) -> tuple[str, str]:
        """The canonical visitor of an event, with its identity scope."""
        return event.scope_id, self.merges.get((event.scope_id, event.visitor_id), event.visitor_id)


# -- Matching ---------------------------------------------------------------------------------------------------------------------------


def value_of(event: Event, property_key: str) -> str:
    """A property's tagged scalar; `$...` is a built-in field, whose empty text is missing."""
    if property_key == "$source":
        return tagged(event.source)
    if property_key.startswith("$"):
        text = event.fields.get(property_key[1:], "")
        return tagged(text) if text else MISSING
    return tagged(event.properties.get(property_key))


def matches(match: Match, event: Event) -> bool:
    if event.kind != KINDS[match.type]:
        return False
    if match.type is MatchType.PAGEVIEW:
        named = re.fullmatch(_path_pattern(match.value), page_path(event.name), re.DOTALL) is not None
    else:
        named = event.name == match.value
    return named and all(holds(condition, value_of(event, condition.property)) for condition in match.filters)


def page_path(path: str) -> str:
    """A path without query, fragment and trailing slash."""
    bare = re.split("[?#]", path, maxsplit=1)[0]
    return bare.removesuffix("/") or "/"


def _path_pattern(value: str) -> str:
    wild = {"**": ".*", "*": "[^/]*"}
    return "".join(wild.get(piece) or re.escape(piece) for piece in re.split(r"(\*\*|\*)", page_path(value)))


NEGATIVE = {
    "not_equals": "equals",
    "not_in": "in",
    "not_contains": "contains",
    "not_matches_regex": "matches_regex",
    "not_between": "between",
}


def holds(condition: Filter, value: str) -> bool:
    """Whether a tagged value satisfies a filter. A missing one satisfies the negative operators and `is_not_set` alone."""
    operator, wanted = condition.operator, condition.value
    if operator in NEGATIVE:
        return not holds(Filter(condition.property, NEGATIVE[operator], wanted), value)
    if operator == "is_not_set":
        return value == MISSING
    if value == MISSING:
        return False
    text = value[1:]
    if operator in ("before", "after"):
        moment, limit = _moment(value), _moment("s" + wanted)
        return moment is not None and limit is not None and (moment < limit if operator == "before" else moment > limit)
    if operator in _COMPARISONS:
        number, limit_number = _number(text), _number(wanted)
        return number is not None and limit_number is not None and _COMPARISONS[operator](number, limit_number)
    if operator == "between":
        number, low, high = _number(text), *(_number(plain_text(end)) for end in json.loads(wanted))
        return number is not None and low is not None and high is not None and low <= number <= high
    return {
        "equals": lambda: text == wanted,
        "in": lambda: text in [plain_text(item) for item in json.loads(wanted)],
        "contains": lambda: wanted in text,
        "starts_with": lambda: text.startswith(wanted),
        "ends_with": lambda: text.endswith(wanted),
        "matches_regex": lambda: re.search(wanted, text, re.DOTALL) is not None,
        "is_set": lambda: True,
        "is_true": lambda: text == "true",
        "is_false": lambda: text == "false",
    }[operator]()


_COMPARISONS = {
    "greater_than": float.__gt__,
    "greater_than_or_equal": float.__ge__,
    "less_than": float.__lt__,
    "less_than_or_equal": float.__le__,
}


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", text) else None


def _moment(value: str) -> float | None:
    """Epoch milliseconds of a JSON number, or of a text that is an ISO 8601 date or date-time; without an offset it is UTC."""
    if value[0] == "n":
        return float(value[1:])
    if value[0] != "s" or not re.fullmatch(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?", value[1:], re.ASCII):
        return None
    try:
        moment = datetime.fromisoformat(value[1:])
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000


# -- Units ------------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reading:
    """An event as one funnel reads it. number: its usable sequence number. invalid: it carries one that is not usable."""

    event: Event
    number: int | None
    invalid: bool

    @property
    def at_ms(self) -> int:
        return self.event.at_ms

    @property
    def order(self) -> tuple[int, int, int, str]:
        return self.at_ms, self.number is None, self.number or 0, self.event.event_id

    def provably_after(self, earlier: "Reading") -> bool:
        """Whether time, or at equal times both numbers, prove the order (R6)."""
        if self.at_ms != earlier.at_ms:
            return self.at_ms > earlier.at_ms
        return self.number is not None and earlier.number is not None and self.number > earlier.number


def read(definition: Definition, event: Event) -> Reading:
    """Read the sequence property: a JSON integer from 0 to 2^63-1 is usable, `1.0` being the same JSON number as `1`; null is absent."""
    value = event.properties.get(definition.sequence_property) if definition.sequence_property is not None else None
    text = tagged(value)
    number = int(text[1:]) if re.fullmatch("n[0-9]+", text) else MAX_NUMBER + 1
    usable = number <= MAX_NUMBER
    return Reading(event, number if usable else None, invalid=value is not None and not usable)


def attempt_id(definition: Definition, event: Event) -> str | None:
    """A non-empty string or an integer, as text."""
    assert definition.attempt_property is not None
    value = value_of(event, definition.attempt_property)
    return value[1:] if re.fullmatch("s.+|n-?[0-9]+", value, re.DOTALL) else None


def split_into_units(history: History, definition: Definition, events: Iterable[Event]) -> tuple[dict[Any, list[Reading]], list[Event]]:
    """Each unit's events in reading order, and the provider events that are left out of their attempt (R18)."""
    units: dict[Any, list[Reading]] = {}
    left_out: list[Event] = []
    if definition.counting_unit is CountingUnit.VISITOR:
        for event in events:
            units.setdefault(history.visitor(event), []).append(read(definition, event))
    else:
        by_attempt: dict[str, list[Event]] = {}
        for event in events:
            attempt = attempt_id(definition, event)
            if attempt is not None:
                by_attempt.setdefault(attempt, []).append(event)
        for attempt, own in by_attempt.items():
            known = {history.visitor(event) for event in own if event.source != "provider"}
            for event in own:
                if event.source != "provider" or (event.verified and history.visitor(event) in known):
                    units.setdefault(attempt, []).append(read(definition, event))
                else:
                    left_out.append(event)
    return {unit: sorted(readings, key=lambda reading: reading.order) for unit, readings in units.items()}, left_out


# -- Entry and progress -----------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Journey:
    """What one unit did from one entry on. completed_ms and options: per completed step. values: tagged entry values.

    tied: whether the entry values were decided by agreement. accepted: the events that rule 5 took, after the entry.
    """

    entry_ms: int
    values: tuple[str, ...]
    tied: bool
    completed_ms: list[int]
    options: list[set[int]]
    accepted: list[Event] = field(default_factory=list)
    skips: int = 0
    ties: int = 0
    events: Sequence[Reading] = ()

    @property
    def reached(self) -> int:
        return len(self.completed_ms)


def matched(row: Row, reading: Reading) -> set[int]:
    """Which of a row's matches an event satisfies, by index."""
    return {index for index, match in enumerate(row.matches) if matches(match, reading.event)}


def counted_options(row: Row, found: set[int]) -> set[int]:
    """Every part of a complete group; else the first option that matched."""
    return set(range(len(row.matches))) if row.all_of else {min(found)}


def journeys(definition: Definition, events: Sequence[Reading]) -> Iterator[Journey]:
    """One for each completion of step 1, the earliest first."""
    step = definition.steps[0]
    filled: set[int] = set()
    filled_before: set[int] = set()
    now_ms, number = None, None
    for index, reading in enumerate(events):
        if reading.at_ms != now_ms:
            now_ms, filled_before = reading.at_ms, set(filled)
        found = matched(step, reading) - filled
        if not found:
            continue
        number = number if reading.number is None else reading.number
        if step.all_of:
            filled |= found
            if len(filled) < len(step.matches):
                continue
        rivals = [other for other in events if other.at_ms == now_ms and matched(step, other) - filled_before]
        yield follow(definition, events, index, found, number, rivals)
        filled, filled_before, number = set(), set(), None


def follow(
    definition: Definition, events: Sequence[Reading], index: int, found: set[int], number: int | None, rivals: Sequence[Reading]
) -> Journey:
    """The progress from the entry `events[index]` on. number: the last usable one that step 1 took. rivals: *S* of the rules."""
    steps, entry = definition.steps, events[index]
    values, tied = entry_values(definition, entry, rivals)
    journey = Journey(entry.at_ms, values, tied, [entry.at_ms], [counted_options(steps[0], found)], events=events)
    last, filled = entry, set[int]()
    for reading in events[index + 1 :]:
        if journey.reached == len(steps):
            break
        if definition.window_s is not None and reading.at_ms > entry.at_ms + definition.window_s * 1000:
            break
        step = steps[journey.reached]
        found = matched(step, reading) - filled
        if not found:
            continue
        if not reading.provably_after(last):
            journey.ties += 1
            continue
        if reading.number is not None and number is not None and reading.number <= number:
            journey.skips += 1
            continue
        journey.accepted.append(reading.event)
        number = number if reading.number is None else reading.number
        if step.all_of:
            filled |= found
            if len(filled) < len(step.matches):
                continue
        journey.completed_ms.append(reading.at_ms)
        journey.options.append(counted_options(step, found))
        last, filled = reading, set()
    return journey


def entry_values(definition: Definition, entry: Reading, rivals: Sequence[Reading]) -> tuple[tuple[str, ...], bool]:
    """The entry's values (R9, R10), or at a tie without usable order what all agree on (R11); and whether it was such a tie."""
    numbers = [rival.number for rival in rivals]
    ordered = len(rivals) == 1 or (None not in numbers and len(set(numbers)) == len(numbers))
    values = []
    for key in definition.breakdown_properties:
        seen = {value_of(rival.event, key) for rival in ([entry] if ordered else rivals)}
        values.append(seen.pop() if len(seen) == 1 else MISSING)
    return tuple(values), not ordered


def chosen_journey(definition: Definition, events: Sequence[Reading], start_ms: int | None, end_ms: int | None) -> Journey | None:
    """The journey that counts for a unit, if its entry is inside the period.

    An attempt has its first one only (R12, R13); a visitor the one that leads furthest, the earliest among equals.
    """

    def inside(journey: Journey) -> bool:
        return in_period(journey.entry_ms, start_ms, end_ms)

    if definition.counting_unit is CountingUnit.ATTEMPT:
        first = next(journeys(definition, events), None)
        return first if first is not None and inside(first) else None
    return max(filter(inside, journeys(definition, events)), key=lambda journey: journey.reached, default=None)


def in_period(at_ms: int, start_ms: int | None, end_ms: int | None) -> bool:
    return (start_ms is None or start_ms <= at_ms) and (end_ms is None or at_ms < end_ms)


# -- Report -----------------------------------------------------------------------------------------------------------------------------


def evaluate(
    history: History,
    definition: Definition,
    *,
    website_ids: Sequence[str],
    evaluated_at_ms: int,
    start_ms: int | None = None,
    end_ms: int | None = None,
    cohort: Mapping[str, Scalar | None] | None = None,
    page: Page | None = None,
) -> dict[str, Any]:
    """`aggregate`, `cohorts` and `dataQuality` of a report."""
    page = page or Page()
    events = [event for event in history.events if event.website_id in website_ids and event.at_ms <= evaluated_at_ms]
    units, left_out = split_into_units(history, definition, events)
    selected = [journey for own in units.values() if (journey := chosen_journey(definition, own, start_ms, end_ms))]
    inside = [event for event in events if in_period(event.at_ms, start_ms, end_ms)]

    wanted = {key: tagged(value) for key, value in (cohort or {}).items()}
    counted = [journey for journey in selected if all(_entry_value(definition, journey, key) == value for key, value in wanted.items())]
    cohorts: dict[tuple[str, ...], list[Journey]] = {} if definition.breakdown_properties else {(): []}
    for journey in counted:
        cohorts.setdefault(journey.values, []).append(journey)
    ranked = sorted(cohorts.items(), key=lambda item: (-len(item[1]), [(value == MISSING, value.encode()) for value in item[0]]))
    return {
        "aggregate": aggregate(definition, counted, evaluated_at_ms),
        "cohorts": {
            "page": page.number,
            "pageSize": page.size,
            "total": len(ranked),
            "data": [
                cohort_name(definition, values) | aggregate(definition, own, evaluated_at_ms)
                for values, own in ranked[page.offset : page.offset + page.size]
            ],
        },
        "dataQuality": data_quality(history, definition, selected, inside, left_out),
    }


def _entry_value(definition: Definition, journey: Journey, key: str) -> str:
    return journey.values[definition.breakdown_properties.index(key)]


def cohort_name(definition: Definition, values: tuple[str, ...]) -> dict[str, Any]:
    named = dict(zip(definition.breakdown_properties, values, strict=True))
    return {
        "cohort": {key: untagged(value) for key, value in named.items()},
        "label": {key: untagged(value) if value != MISSING else "Unknown" for key, value in named.items()},
    }


def aggregate(definition: Definition, counted: Sequence[Journey], evaluated_at_ms: int) -> dict[str, Any]:
    steps, window_s = definition.steps, definition.window_s
    rows = [(index, row) for index, row in enumerate(definition.rows) if not row.diagnostic]
    done = [journey for journey in counted if journey.reached == len(steps)]
    open_: list[Journey] = []
    lost: list[Journey] = []
    for journey in counted:
        if journey.reached < len(steps):
            still_open = window_s is None or evaluated_at_ms <= journey.entry_ms + window_s * 1000
            (open_ if still_open else lost).append(journey)
    counts = [sum(journey.reached >= number for journey in counted) for number in range(1, len(steps) + 1)]
    minutes = [(journey.completed_ms[-1] - journey.entry_ms) / 60_000 for journey in done]
    return {
        "entered": len(counted),
        "completed": len(done),
        "pending": len(open_),
        "droppedOff": len(lost),
        "conversionRate": rate(len(done), len(counted)),
        "medianCompletionMinutes": float(median(minutes)) if minutes else None,
        "steps": [
            {
                "step": k,
                "row": row_index,
                "type": row.matches[0].type.value,
                "value": row.matches[0].value,
                "count": counts[k - 1],
                "pending": sum(journey.reached == k for journey in open_),
                "droppedOff": sum(journey.reached == k for journey in lost),
                "conversionFromStart": rate(counts[k - 1], counts[0]),
                "conversionFromPrevious": rate(counts[k - 1], counts[k - 2]) if k > 1 else None,
                "options": [
                    {"option": option, "count": sum(journey.reached >= k and option in journey.options[k - 1] for journey in counted)}
                    for option in range(len(row.matches))
                ],
            }
            for k, (row_index, row) in enumerate(rows, start=1)
        ],
        "diagnostics": [diagnostic(definition, row_index, row, counted) for row_index, row in enumerate(definition.rows) if row.diagnostic],
    }


def rate(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def diagnostic(definition: Definition, row_index: int, row: Row, counted: Sequence[Journey]) -> dict[str, Any]:
    """Matching events between the completion of the step above and that of the next, or the window's end; both ends included."""
    above = sum(not earlier.diagnostic for earlier in definition.rows[:row_index])
    found = []
    for journey in counted:
        if journey.reached < above:
            continue
        if journey.reached > above:
            until_ms: float = journey.completed_ms[above]
        elif definition.window_s is not None:
            until_ms = journey.entry_ms + definition.window_s * 1000
        else:
            until_ms = float("inf")
        there = [reading for reading in journey.events if journey.completed_ms[above - 1] <= reading.at_ms <= until_ms]
        found.append(sum(bool(matched(row, reading)) for reading in there))
    return {
        "row": row_index,
        "afterStep": above,
        "type": row.matches[0].type.value,
        "value": row.matches[0].value,
        "units": sum(count > 0 for count in found),
        "events": sum(found),
    }


def data_quality(
    history: History, definition: Definition, selected: Sequence[Journey], inside: Sequence[Event], left_out: Sequence[Event]
) -> dict[str, Any]:
    """selected: all entry cohorts of the period. inside: the events of the period. left_out: provider events outside their attempt."""
    keys = definition.breakdown_properties

    def required(event: Event) -> bool:
        return any(matches(match, event) for step in definition.steps for match in step.matches)

    def invalid(journey: Journey) -> int:
        return sum(reading.invalid and required(reading.event) for reading in journey.events)

    def conflicts(journey: Journey, position: int) -> bool:
        mine = journey.values[position]
        return mine != MISSING and any(value_of(event, keys[position]) not in (mine, MISSING) for event in journey.accepted)

    def visitors(journey: Journey) -> set[tuple[str, str]]:
        return {history.visitor(reading.event) for reading in journey.events if required(reading.event)}

    attempts = definition.counting_unit is CountingUnit.ATTEMPT
    return {
        "eventsWithoutAttemptId": sum(attempts and required(event) and attempt_id(definition, event) is None for event in inside),
        "invalidSequenceValues": sum(invalid(journey) for journey in selected),
        "sequenceSkips": sum(journey.skips for journey in selected),
        "unorderedTies": sum(journey.ties for journey in selected),
        "unitsWithOrderingIssues": sum(bool(journey.skips or journey.ties or invalid(journey)) for journey in selected),
        "tiedEntries": sum(journey.tied for journey in selected),
        "unknownEntryValues": {key: sum(journey.values[i] == MISSING for journey in selected) for i, key in enumerate(keys)},
        "conflictingEntryValues": {key: sum(conflicts(journey, i) for journey in selected) for i, key in enumerate(keys)},
        "unverifiedProviderEvents": sum(required(event) for event in inside if event in left_out),
        "attemptsWithSeveralVisitors": sum(attempts and len(visitors(journey)) > 1 for journey in selected),
    }
