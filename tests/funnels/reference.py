"""Funnels in plain Python: a second evaluation, written from the counting rules alone.

Tests compare the engine's statement with it. It shares only the definition's types and the typed
scalars with the engine, and prefers the rules' own words to speed. The rules for one unit are those
of the trace (`penstock.funnels.units.trace`); matching, units and the report are here.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

from penstock.base.paging import Page
from penstock.base.scalar import MISSING, Scalar, tagged, untagged
from penstock.funnels.definitions.model import (
    CountingUnit,
    Definition,
    Filter,
    Match,
    MatchType,
    Row,
)
from penstock.funnels.units.trace import (
    FunnelPath,
    MatchedEvent,
    chosen_path,
    coarse_times,
    in_period,
    seen_by_diagnostics,
)

KINDS = {
    MatchType.PAGEVIEW: "pageview",
    MatchType.SCREEN_VIEW: "screenview",
    MatchType.EVENT: "event",
    MatchType.TRANSACTION: "transaction",
}
MAX_NUMBER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Event:
    """One stored event.

    name: path, screen, event name or transaction event. fields: `country` for the built-in
    `$country`, and so on.
    """

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
    client_event_id: str = ""


@dataclass(frozen=True, slots=True)
class History:
    """All stored data. merges: (scope, merged visitor) -> canonical visitor, without chains."""

    events: tuple[Event, ...]
    merges: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def visitor(self, event: Event) -> tuple[str, str]:
        """The canonical visitor of an event, with its identity scope."""
        return event.scope_id, self.merges.get((event.scope_id, event.visitor_id), event.visitor_id)


# -- First and last touch ------------------------------------------------------------------------

TOUCHED = ("utm_source", "utm_medium", "utm_campaign", "link")


def with_touches(history: History, website_ids: Sequence[str], evaluated_at_ms: int) -> History:
    """The same history, with the first and last touch as fields of each event that a query reads.

    A touch is an event with a UTM parameter or a link. The touches of an event are the first and
    the last of its visitor up to its time, ordered by time and event ID.
    """
    read = [
        event
        for event in history.events
        if event.website_id in website_ids and event.at_ms <= evaluated_at_ms
    ]
    touches: dict[tuple[str, str], list[Event]] = {}
    for event in sorted(read, key=lambda event: (event.at_ms, event.event_id)):
        if any(event.fields.get(name) for name in (*TOUCHED, "utm_content", "utm_term")):
            touches.setdefault(history.visitor(event), []).append(event)

    def touched(event: Event) -> Event:
        before = [
            touch for touch in touches.get(history.visitor(event), ()) if touch.at_ms <= event.at_ms
        ]
        if event not in read or not before:
            return event
        return replace(
            event,
            fields={
                **event.fields,
                **{f"first_{name}": before[0].fields.get(name, "") for name in TOUCHED},
                **{f"last_{name}": before[-1].fields.get(name, "") for name in TOUCHED},
            },
        )

    return History(tuple(map(touched, history.events)), history.merges)


# -- Matching ------------------------------------------------------------------------------------


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
        named = (
            re.fullmatch(_path_pattern(match.value), page_path(event.name), re.DOTALL) is not None
        )
    else:
        named = event.name == match.value
    return named and all(
        holds(condition, value_of(event, condition.property)) for condition in match.filters
    )


def page_path(path: str) -> str:
    """A path without query, fragment and trailing slash."""
    bare = re.split("[?#]", path, maxsplit=1)[0]
    return bare.removesuffix("/") or "/"


def _path_pattern(value: str) -> str:
    wildcards = {"**": ".*", "*": "[^/]*"}
    return "".join(
        wildcards.get(piece) or re.escape(piece)
        for piece in re.split(r"(\*\*|\*)", page_path(value))
    )


NEGATIVE = {
    "not_equals": "equals",
    "not_in": "in",
    "not_contains": "contains",
    "not_matches_regex": "matches_regex",
    "not_between": "between",
    "is_not_set": "is_set",
}


def holds(condition: Filter, value: str) -> bool:
    """Whether a tagged value satisfies a filter.

    A missing value satisfies only negative operators and `is_not_set`.
    """
    operator = str(condition.comparison.operator)
    operand = condition.comparison.operand
    if operator in NEGATIVE:
        return not _holds(NEGATIVE[operator], operand, value)
    return _holds(operator, operand, value)


def _holds(operator: str, operand: Any, value: str) -> bool:
    """Whether a tagged value satisfies a positive operator."""
    if value == MISSING:
        return False
    text = value[1:]
    if operator in ("before", "after"):
        at_ms = _time_ms(value)
        return at_ms is not None and (at_ms < operand if operator == "before" else at_ms > operand)
    if operator in _COMPARISONS:
        number = _number(text)
        return number is not None and _COMPARISONS[operator](number, operand)
    if operator == "between":
        number = _number(text)
        return number is not None and operand[0] <= number <= operand[1]
    return {
        "equals": lambda: text == operand,
        "in": lambda: text in operand,
        "contains": lambda: operand in text,
        "starts_with": lambda: text.startswith(operand),
        "ends_with": lambda: text.endswith(operand),
        "equals_ignore_case": lambda: text.casefold() == operand.casefold(),
        "contains_ignore_case": lambda: operand.casefold() in text.casefold(),
        "matches_regex": lambda: re.search(operand, text, re.DOTALL) is not None,
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


_DATE = r"\d{4}-\d\d-\d\d"
_TIME = r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?(Z|[+-]([01]\d|2[0-3]):?[0-5]\d)?"


def _time_ms(value: str) -> float | None:
    """Epoch milliseconds of a JSON number, or of an ISO 8601 date or time; UTC without an offset.

    Digits below a millisecond are cut.
    """
    if value[0] == "n":
        return float(value[1:])
    if value[0] != "s" or not re.fullmatch(rf"{_DATE}([T ]{_TIME})?", value[1:], re.ASCII):
        return None
    try:
        time = datetime.fromisoformat(value[1:])
    except ValueError:
        return None
    since_1970 = (time if time.tzinfo else time.replace(tzinfo=UTC)) - datetime(
        1970, 1, 1, tzinfo=UTC
    )
    return since_1970 // timedelta(milliseconds=1)


# -- Units ---------------------------------------------------------------------------------------


def read(definition: Definition, event: Event) -> MatchedEvent:
    """An event in the form that the funnel uses.

    A sequence number is usable if it is a JSON integer from 0 to 2^63-1; `1.0` is the same JSON
    number as `1`, and null counts as absent.
    """
    value = (
        event.properties.get(definition.sequence_property)
        if definition.sequence_property is not None
        else None
    )
    text = tagged(value)
    number = int(text[1:]) if re.fullmatch("n[0-9]+", text) else MAX_NUMBER + 1
    usable = number <= MAX_NUMBER
    return MatchedEvent(
        event_id=event.event_id,
        at_ms=event.at_ms,
        number=number if usable else None,
        invalid=value is not None and not usable,
        matched=tuple(
            frozenset(at for at, match in enumerate(row.matches) if matches(match, event))
            for row in definition.rows
        ),
        values=tuple(value_of(event, key) for key in definition.breakdown_properties),
        coarse=event.source == "provider" and event.properties.get("provider") == "stripe",
    )


def attempt_id(definition: Definition, event: Event) -> str | None:
    """The attempt ID as text: an integer, or a string that is not blank, null or undefined."""
    assert definition.attempt_property is not None
    value = value_of(event, definition.attempt_property)
    if re.fullmatch("s.+|n-?[0-9]+", value, re.DOTALL) is None:
        return None
    text = value[1:]
    return text if text.strip() and text.lower() not in ("null", "undefined") else None


def split_into_units(
    history: History, definition: Definition, events: Iterable[Event]
) -> tuple[dict[Any, list[MatchedEvent]], list[Event]]:
    """Each unit's events in reading order, and the excluded provider events (R18)."""
    units: dict[Any, list[MatchedEvent]] = {}
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
            others = {history.visitor(event) for event in own if event.source != "provider"}
            for event in own:
                if event.source != "provider" or (
                    event.verified and (not others or history.visitor(event) in others)
                ):
                    units.setdefault(attempt, []).append(read(definition, event))
                else:
                    left_out.append(event)
    return {
        unit: sorted(matched_events, key=lambda matched_event: matched_event.order)
        for unit, matched_events in units.items()
    }, left_out


# -- Report --------------------------------------------------------------------------------------


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
    history = with_touches(history, website_ids, evaluated_at_ms)
    events = [
        event
        for event in history.events
        if event.website_id in website_ids and event.at_ms <= evaluated_at_ms
    ]
    units, left_out = split_into_units(history, definition, events)
    selected = list(selected_units(definition, units, start_ms, end_ms).values())
    inside = [event for event in events if in_period(event.at_ms, start_ms, end_ms)]

    cohort_values = {key: tagged(value) for key, value in (cohort or {}).items()}
    counted = [
        path
        for path in selected
        if all(_entry_value(definition, path, key) == value for key, value in cohort_values.items())
    ]
    cohorts: dict[tuple[str, ...], list[FunnelPath]] = (
        {} if definition.breakdown_properties else {(): []}
    )
    for path in counted:
        cohorts.setdefault(path.values, []).append(path)
    ranked = sorted(
        cohorts.items(),
        key=lambda item: (-len(item[1]), [(value == MISSING, value.encode()) for value in item[0]]),
    )
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


def selected_units(
    definition: Definition,
    units: Mapping[Any, Sequence[MatchedEvent]],
    start_ms: int | None,
    end_ms: int | None,
) -> dict[Any, FunnelPath]:
    """The path that counts for each unit, if it has one in the period."""
    chosen = ((unit, chosen_path(definition, own, start_ms, end_ms)) for unit, own in units.items())
    return {unit: path for unit, path in chosen if path is not None}


def _entry_value(definition: Definition, path: FunnelPath, key: str) -> str:
    return path.values[definition.breakdown_properties.index(key)]


def cohort_name(definition: Definition, values: tuple[str, ...]) -> dict[str, Any]:
    named = dict(zip(definition.breakdown_properties, values, strict=True))
    return {
        "cohort": {key: untagged(value) for key, value in named.items()},
        "label": {
            key: untagged(value) if value != MISSING else "Unknown" for key, value in named.items()
        },
    }


def aggregate(
    definition: Definition, counted: Sequence[FunnelPath], evaluated_at_ms: int
) -> dict[str, Any]:
    steps = definition.steps
    rows = [(index, row) for index, row in enumerate(definition.rows) if not row.diagnostic]
    done = [path for path in counted if path.reached == len(steps)]
    open_: list[FunnelPath] = []
    lost: list[FunnelPath] = []
    for path in counted:
        if path.reached < len(steps):
            (open_ if path.is_open(evaluated_at_ms) else lost).append(path)
    counts = [
        sum(path.reached >= number for path in counted) for number in range(1, len(steps) + 1)
    ]
    durations_ms = [path.done_ms[-1] - path.entry_ms for path in done]
    return {
        "entered": len(counted),
        "completed": len(done),
        "pending": len(open_),
        "droppedOff": len(lost),
        "conversionRate": rate(len(done), len(counted)),
        "medianCompletionMinutes": median(durations_ms) / 60_000 if durations_ms else None,
        "steps": [
            {
                "step": k,
                "row": row_index,
                "type": row.matches[0].type.value,
                "value": row.matches[0].value,
                "count": counts[k - 1],
                "pending": sum(path.reached == k for path in open_),
                "droppedOff": sum(path.reached == k for path in lost),
                "conversionFromStart": rate(counts[k - 1], counts[0]),
                "conversionFromPrevious": rate(counts[k - 1], counts[k - 2]) if k > 1 else None,
                "options": [
                    {
                        "option": option,
                        "count": sum(
                            path.reached >= k and option in path.options[k - 1] for path in counted
                        ),
                    }
                    for option in range(len(row.matches))
                ],
            }
            for k, (row_index, row) in enumerate(rows, start=1)
        ],
        "diagnostics": [
            diagnostic(definition, row_index, row, counted)
            for row_index, row in enumerate(definition.rows)
            if row.diagnostic
        ],
    }


def rate(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def diagnostic(
    definition: Definition, row_index: int, row: Row, counted: Sequence[FunnelPath]
) -> dict[str, Any]:
    own = [
        seen[row_index]
        for path in counted
        if row_index in (seen := seen_by_diagnostics(definition, path))
    ]
    above = sum(not earlier.diagnostic for earlier in definition.rows[:row_index])
    places = ["before step 1", *(f"between steps {k} and {k + 1}" for k in range(1, 20))]
    n = len(definition.steps)
    return {
        "row": row_index,
        "afterStep": above,
        "where": places[above] if above < n else f"after step {n}",
        "type": row.matches[0].type.value,
        "value": row.matches[0].value,
        "units": sum(
            all(
                any(part in event.matched[row_index] for event in events)
                for part in range(len(row.matches))
            )
            if row.all_of
            else bool(events)
            for events in own
        ),
        "events": sum(map(len, own)),
    }


def data_quality(
    history: History,
    definition: Definition,
    selected: Sequence[FunnelPath],
    inside: Sequence[Event],
    left_out: Sequence[Event],
) -> dict[str, Any]:
    """`dataQuality` of a report.

    selected: paths of all entry cohorts of the period. inside: events in the period. left_out:
    provider events outside their attempt.
    """
    keys = definition.breakdown_properties
    attempts = definition.counting_unit is CountingUnit.ATTEMPT
    events = {event.event_id: event for event in history.events}

    def required(event: Event) -> bool:
        return any(matches(match, event) for step in definition.steps for match in step.matches)

    def conflicts(path: FunnelPath, place: int) -> bool:
        """Whether a later event has another value; for attempts, any match in the window."""
        candidates: Sequence[MatchedEvent] = path.accepted
        if attempts:
            window_ms = (definition.window_s or 0) * 1000
            candidates = [
                event
                for event in path.events
                if event in path.later
                and event.at_ms <= path.entry_ms + window_ms
                and required(events[event.event_id])
            ]
        values = {event.values[place] for event in candidates} - {MISSING}
        return path.values[place] != MISSING and bool(values - {path.values[place]})

    def invalid(path: FunnelPath) -> int:
        return sum(
            matched_event.invalid and required(events[matched_event.event_id])
            for matched_event in path.events
        )

    def visitors(path: FunnelPath) -> set[tuple[str, str]]:
        return {
            history.visitor(events[matched_event.event_id])
            for matched_event in path.events
            if required(events[matched_event.event_id])
        }

    return {
        "eventsWithoutAttemptId": sum(
            attempts and required(event) and attempt_id(definition, event) is None
            for event in inside
        ),
        "invalidSequenceValues": sum(invalid(path) for path in selected),
        "sequenceSkips": sum(path.skips for path in selected),
        "unorderedTies": sum(path.ties for path in selected),
        "unitsWithOrderingIssues": sum(
            bool(path.skips or path.ties or invalid(path)) for path in selected
        ),
        "tiedEntries": sum(path.tied for path in selected),
        "unknownEntryValues": {
            key: sum(path.values[i] == MISSING for path in selected) for i, key in enumerate(keys)
        },
        "conflictingEntryValues": {
            key: sum(conflicts(path, i) for path in selected) for i, key in enumerate(keys)
        },
        "unverifiedProviderEvents": sum(required(event) for event in inside if event in left_out),
        "coarseTimes": sum(coarse_times(definition, path.events) for path in selected),
        "attemptsWithSeveralVisitors": sum(
            attempts and len(visitors(path)) > 1 for path in selected
        ),
        "unitsOverLimit": 0,
        "lostOnDevices": 0,
    }
