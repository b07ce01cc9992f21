"""Computes a report: assigns events to units, and counts all units."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from tests.funnels.reference.any_order import runs_in_any_order
from tests.funnels.reference.breakdown import breakdown_values
from tests.funnels.reference.history import Event, History
from tests.funnels.reference.matching import (
    Json,
    Value,
    as_json,
    by_field,
    holds,
    matches,
    scalar,
    value_of,
)
from tests.funnels.reference.runs import (
    Funnel,
    Row,
    Run,
    UnitEvent,
    all_runs,
    coarse_times,
    conflicts,
    counted_run,
    events_of_run,
    is_seen,
    seen_by,
)

Unit = Any
"""An attempt ID, the parts of a composite attempt ID, or a visitor and their identity scope.

If every run of a visitor counts, a visitor and the ID of the event with which the run entered.
"""

MAX_NUMBER = 2**63 - 1
DEFAULT_ATTEMPT_WINDOW_S = 604_800


@dataclass(frozen=True, slots=True)
class Units:
    """The units of a definition in a history, and their events.

    definition: in the API's format, with goals replaced by their matches. events: all events that
    the report reads. by_unit: the events of each unit. left_out: provider events that do not belong
    to an attempt. visitors: the canonical visitor of each event, by event ID.
    """

    definition: Json
    funnel: Funnel
    events: Sequence[Event]
    by_unit: Mapping[Unit, Sequence[UnitEvent]]
    left_out: Sequence[Event]
    visitors: Mapping[str, tuple[str, str]]

    def counted(
        self, start_ms: int | None, end_ms: int | None, *, settled_at_ms: int | None = None
    ) -> dict[Unit, Run]:
        """The run of each unit that entered in a period.

        settled_at_ms: leave out units that are not settled at this time.
        """
        runs: dict[Unit, Run | None] = {
            unit: counted_run(self.runs(own), start_ms, end_ms)
            for unit, own in self.by_unit.items()
        }
        if self.funnel.counts_runs:
            runs = {
                (visitor, run.entry.id): run
                for visitor, own in self.by_unit.items()
                for run in self.runs(own)
                if (start_ms is None or start_ms <= run.entry_ms)
                and (end_ms is None or run.entry_ms < end_ms)
                and run.passes
            }
        counted = {
            unit: run
            for unit, run in runs.items()
            if run is not None and (settled_at_ms is None or is_settled(self, run, settled_at_ms))
        }
        for unit, run in counted.items():
            self.break_down(self.history(unit), run)
        return counted

    def break_down(self, events: Sequence[UnitEvent], run: Run) -> None:
        """Give a run the values of the breakdown, if they are not those of the entry."""
        at = self.definition["breakdownAt"]
        if at not in ("entry", 1) and run.values:
            run.breakdown = breakdown_values(self.funnel, at, events, run)
            run.values, run.by_agreement = run.breakdown.values, run.breakdown.by_agreement

    def runs(self, events: Sequence[UnitEvent]) -> Iterator[Run]:
        """All runs of a unit, in order of entry."""
        if self.funnel.in_any_order:
            return runs_in_any_order(self.funnel, events)
        return all_runs(self.funnel, events)

    def history(self, unit: Unit) -> Sequence[UnitEvent]:
        """All events of a unit; of a run, all events of its visitor."""
        return self.by_unit[unit[0] if self.funnel.counts_runs else unit]

    def own(self, unit: Unit, run: Run) -> Sequence[UnitEvent]:
        """The events whose data quality counts for a unit; of a run, those from its beginning to
        its end.
        """
        events = self.history(unit)
        return events_of_run(self.funnel, events, run) if self.funnel.counts_runs else events


def read_units(
    history: History,
    definition: Json,
    website_ids: Sequence[str],
    evaluated_at_ms: int,
    goals: Mapping[str, Json] | None = None,
    filters: Sequence[Json] = (),
    internal: Sequence[Json] = (),
) -> Units:
    """Read the units of a definition.

    goals: matches of the goals in use, by goal name. filters: those of the request. internal: the
    filters of internal traffic.
    """
    definition = {
        **with_defaults(definition, goals or {}),
        "entryFilters": list(map(by_field, filters)),
        "internalTraffic": internal,
    }
    events = history.read(website_ids, evaluated_at_ms)
    visitors = {event.event_id: history.visitor(event) for event in events}
    members: dict[Unit, list[Event]] = {}
    left_out: list[Event] = []
    if definition["countingUnit"] == "visitor":
        for event in events:
            members.setdefault(visitors[event.event_id], []).append(event)
    else:
        for event in events:
            attempt = attempt_id(definition, event, visitors[event.event_id])
            if attempt is not None:
                members.setdefault(attempt, []).append(event)
        for attempt, own in members.items():
            known = {visitors[event.event_id] for event in own if event.source != "provider"}
            members[attempt] = [
                event
                for event in own
                if event.source != "provider"
                or (event.verified and (not known or visitors[event.event_id] in known))
            ]
            left_out += [event for event in own if event not in members[attempt]]
    return Units(
        definition,
        funnel_of(definition),
        events,
        {unit: [unit_event(definition, event) for event in own] for unit, own in members.items()},
        left_out,
        visitors,
    )


def with_defaults(definition: Json, goals: Mapping[str, Json]) -> Json:
    """Return the definition with all fields filled in, and with the matches of all rows under
    `matches`.
    """
    unit = definition.get("countingUnit", "visitor")
    return {
        "countingUnit": unit,
        "attemptProperties": definition.get("attemptProperties")
        or [definition.get("attemptProperty")],
        "sequenceProperty": definition.get("sequenceProperty"),
        "breakdownProperties": definition.get("breakdownProperties", []),
        "windowSeconds": window_seconds(definition),
        "equalTimes": definition.get("equalTimes", "proven"),
        "repeat": definition.get("repeat", False),
        "order": definition.get("order", "given"),
        "breakdownAt": definition.get("breakdownAt", "entry"),
        "steps": [
            {
                "type": row["type"],
                "value": row["value"],
                "name": row.get("name"),
                "mode": row.get("mode"),
                "diagnostic": row.get("diagnostic", False),
                "exclude": row.get("exclude", False),
                "strict": row.get("strict", False),
                "matches": [without_goal(match, goals) for match in (row, *row.get("or", []))],
            }
            for row in definition["steps"]
        ],
    }


def window_seconds(definition: Json) -> int | None:
    if (window := definition.get("conversionWindow")) is not None:
        return window["value"] * {"minute": 60, "hour": 3600, "day": 86_400}[window["unit"]]
    by_attempt = definition.get("countingUnit") == "attempt"
    return definition.get(
        "conversionWindowSeconds", DEFAULT_ATTEMPT_WINDOW_S if by_attempt else None
    )


def without_goal(match: Json, goals: Mapping[str, Json]) -> Json:
    """Return the match; a reference to a goal becomes the goal's match with the filters of both."""
    filters = match.get("filters", [])
    if match["type"] != "Goal":
        named = {"type": match["type"], "value": match["value"]}
        return {**named, "filters": list(map(by_field, filters))}
    goal = goals[match["value"]]
    return {**goal, "filters": list(map(by_field, [*goal.get("filters", []), *filters]))}


def funnel_of(definition: Json) -> Funnel:
    window_s = definition["windowSeconds"]
    return Funnel(
        [
            Row(
                position,
                len(row["matches"]),
                is_group=row["mode"] == "all_of",
                is_diagnostic=row["diagnostic"],
                is_exclusion=row["exclude"],
                is_strict=bool(row["strict"]),
                allows_nothing=row["strict"] == "all",
            )
            for position, row in enumerate(definition["steps"])
        ],
        None if window_s is None else window_s * 1000,
        definition["countingUnit"] == "attempt",
        definition["equalTimes"] == "inStepOrder",
        definition["repeat"],
        definition["order"] == "any",
        [partial(holds, item) for item in definition["entryFilters"]]
        + [partial(fails, item) for item in definition["internalTraffic"]],
    )


def fails(item: Json, value: Value) -> bool:
    return not holds(item, value)


def unit_event(definition: Json, event: Event) -> UnitEvent:
    sequence_property = definition["sequenceProperty"]
    sent = None if sequence_property is None else event.properties.get(sequence_property)
    number = usable_number(sent)
    return UnitEvent(
        id=event.event_id,
        at_ms=event.at_ms,
        is_whole_second=event.source == "provider" and event.properties.get("provider") == "stripe",
        number=number,
        is_invalid=sent is not None and number is None,
        satisfied=tuple(
            tuple(
                position for position, match in enumerate(row["matches"]) if matches(match, event)
            )
            for row in definition["steps"]
        ),
        values=tuple(value_of(event, key) for key in definition["breakdownProperties"]),
        compared=tuple(
            value_of(event, item["property"])
            for item in (*definition["entryFilters"], *definition["internalTraffic"])
        ),
        is_sent=not is_app_open(event),
    )


def is_app_open(event: Event) -> bool:
    """Whether Penstock recorded the event itself, when an app was opened."""
    return bool(event.fields.get("link_method")) or (
        (event.source, event.kind) == ("app", "event")
        and event.name in ("install", "open")
        and not event.session_id
        and not event.client_event_id
    )


def usable_number(sent: Any) -> int | None:
    """A JSON integer from 0 to 2^63 - 1. `1.0` is the same JSON number as `1`."""
    value = scalar(sent)
    if value is None or value[0] != "number" or not re.fullmatch("[0-9]+", value[1]):
        return None
    return int(value[1]) if int(value[1]) <= MAX_NUMBER else None


def attempt_id(definition: Json, event: Event, visitor: tuple[str, str]) -> Unit:
    """The attempt ID of an event: the value of the only key, or the values of all keys.

    None if a key has none. A payment event needs a property among the keys.
    """
    keys = definition["attemptProperties"]
    if event.source == "provider" and all(key.startswith("$") for key in keys):
        return None
    session = (event.website_id, visitor, event.session_id) if event.session_id else None
    builtins = {"$visitor": visitor, "$session": session}
    parts = tuple(builtins[key] if key in builtins else id_text(event, key) for key in keys)
    if None in parts:
        return None
    return parts[0] if len(parts) == 1 and not keys[0].startswith("$") else parts


def id_text(event: Event, key: str) -> str | None:
    """A property as a part of an attempt ID: an integer, or a string that is not blank, null or
    undefined.
    """
    value = value_of(event, key)
    if value is None or value[0] == "boolean":
        return None
    kind, text = value
    if kind == "number":
        return text if re.fullmatch("-?[0-9]+", text) else None
    return text if text.strip() and text.lower() not in ("null", "undefined") else None


# -- The report ----------------------------------------------------------------------------------


def evaluate(
    history: History,
    definition: Json,
    *,
    website_ids: Sequence[str],
    evaluated_at_ms: int,
    goals: Mapping[str, Json] | None = None,
    start_ms: int | None = None,
    end_ms: int | None = None,
    cohort: Mapping[str, Any] | None = None,
    page: int = 1,
    page_size: int = 20,
    filters: Sequence[Json] = (),
    settled: bool = False,
) -> dict[str, Any]:
    """`aggregate`, `cohorts` and `dataQuality` of a report."""
    units = read_units(history, definition, website_ids, evaluated_at_ms, goals, filters)
    period = start_ms, end_ms
    return report(units, evaluated_at_ms, *period, cohort or {}, page, page_size, settled=settled)


def report(
    units: Units,
    evaluated_at_ms: int,
    start_ms: int | None,
    end_ms: int | None,
    cohort: Mapping[str, Any],
    page: int,
    page_size: int,
    *,
    settled: bool = False,
) -> dict[str, Any]:
    keys = units.definition["breakdownProperties"]
    selected = units.counted(start_ms, end_ms, settled_at_ms=evaluated_at_ms if settled else None)
    counted = {
        unit: run
        for unit, run in selected.items()
        if all(run.values[keys.index(key)] == scalar(value) for key, value in cohort.items())
    }
    cohorts: dict[tuple[Value, ...], dict[Unit, Run]] = {} if keys else {(): {}}
    for unit, run in counted.items():
        cohorts.setdefault(run.values, {})[unit] = run
    ranked = sorted(cohorts, key=lambda values: (-len(cohorts[values]), _rank(values)))
    first = (page - 1) * page_size
    return {
        "aggregate": aggregate(units, counted, evaluated_at_ms),
        "cohorts": {
            "page": page,
            "pageSize": page_size,
            "total": len(ranked),
            "data": [
                {
                    "cohort": dict(zip(keys, map(as_json, values), strict=True)),
                    "label": {
                        key: "Unknown" if value is None else as_json(value)
                        for key, value in zip(keys, values, strict=True)
                    },
                    **aggregate(units, cohorts[values], evaluated_at_ms),
                }
                for values in ranked[first : first + page_size]
            ],
        },
        "dataQuality": data_quality(units, selected, start_ms, end_ms),
    }


def _rank(values: tuple[Value, ...]) -> list[Any]:
    """Sort key: booleans come before numbers, numbers before strings, and a missing value is last.
    Equal types are sorted by text.
    """
    return [("z", b"") if value is None else (value[0], value[1].encode()) for value in values]


def aggregate(units: Units, counted: Mapping[Unit, Run], evaluated_at_ms: int) -> dict[str, Any]:
    funnel, runs = units.funnel, list(counted.values())
    count = len(funnel.steps)
    completed = [run for run in runs if run.reached == count]
    excluded = [run for run in runs if run.is_excluded]
    eligible = [run for run in runs if not run.is_excluded]
    unfinished = [run for run in eligible if run.reached < count]
    pending = [run for run in unfinished if has_open_window(units, run, evaluated_at_ms)]
    dropped = [run for run in unfinished if not has_open_window(units, run, evaluated_at_ms)]
    open_runs = [run for run in runs if may_complete(units, run, evaluated_at_ms)]
    bounded = len(eligible) + sum(run.is_excluded for run in open_runs)
    durations_ms = [run.done_ms[-1] - run.entry_ms for run in completed]
    settled = [run for run in eligible if is_settled(units, run, evaluated_at_ms)]
    won = [run for run in settled if run.reached == count]
    counts = [sum(run.reached >= step for run in runs) for step in range(1, count + 1)]
    left = [sum(run.reached >= step for run in eligible) for step in range(1, count + 1)]
    return {
        "entered": len(runs),
        "completed": len(completed),
        "pending": len(pending),
        "droppedOff": len(dropped),
        "excluded": len(excluded),
        "conversionRate": rate(len(completed), len(eligible)),
        "settled": len(settled),
        "settledRate": rate(len(won), len(settled)),
        "earlyCompletions": sum(has_open_window(units, run, evaluated_at_ms) for run in completed),
        "finalRate": (
            {
                "lower": rate(len(completed), bounded),
                "upper": rate(len(completed) + len(open_runs), bounded),
            }
            if open_runs
            else None
        ),
        "medianCompletionMinutes": median(durations_ms) / 60_000 if durations_ms else None,
        "steps": [
            {
                "step": number,
                "row": row.position,
                **identity(units, row),
                "count": counts[number - 1],
                "pending": sum(run.reached == number for run in pending),
                "droppedOff": sum(run.reached == number for run in dropped),
                "excluded": sum(run.reached == number for run in excluded),
                "conversionFromStart": rate(left[number - 1], len(eligible)),
                "conversionFromPrevious": (
                    rate(left[number - 1], left[number - 2]) if number > 1 else None
                ),
                "settled": sum(run.reached >= number for run in settled),
                "settledFromStart": rate(
                    sum(run.reached >= number for run in settled), len(settled)
                ),
                "settledFromPrevious": (
                    rate(
                        sum(run.reached >= number for run in settled),
                        sum(run.reached >= number - 1 for run in settled),
                    )
                    if number > 1
                    else None
                ),
                "options": [
                    {
                        "option": option,
                        "count": sum(
                            len(run.options) >= number and option in run.options[number - 1]
                            for run in runs
                        ),
                    }
                    for option in range(row.size)
                ],
                **(
                    {"rowCount": sum(bool(run.options[number - 1]) for run in runs)}
                    if funnel.in_any_order
                    else {}
                ),
            }
            for number, row in enumerate(funnel.steps, start=1)
        ],
        "diagnostics": [
            diagnostic(units, row, counted) for row in funnel.rows if row.is_diagnostic
        ],
    }


def identity(units: Units, row: Row) -> dict[str, Any]:
    """The type and value of a row, and its name, if it has one."""
    saved = units.definition["steps"][row.position]
    named = {"name": saved["name"]} if saved["name"] else {}
    return {"type": saved["type"], "value": saved["value"], **named}


def has_open_window(units: Units, run: Run, evaluated_at_ms: int) -> bool:
    """Whether a run's conversion window is open, including its last millisecond."""
    window_ms = units.funnel.window_ms
    return window_ms is None or evaluated_at_ms <= run.entry_ms + window_ms


def may_complete(units: Units, run: Run, evaluated_at_ms: int) -> bool:
    """Whether the unit of a run is open: it has not completed, and an entry of it still may."""
    return run.reached < len(units.funnel.steps) and any(
        has_open_window(units, entry, evaluated_at_ms) and not entry.is_excluded
        for entry in (run, *run.others)
    )


def is_settled(units: Units, run: Run, evaluated_at_ms: int) -> bool:
    """Whether the window of a run has ended, and its unit is not open."""
    has_ended = not has_open_window(units, run, evaluated_at_ms)
    return has_ended and not may_complete(units, run, evaluated_at_ms)


def rate(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def diagnostic(units: Units, row: Row, counted: Mapping[Unit, Run]) -> dict[str, Any]:
    seen = [seen_by(units.funnel, units.history(unit), run, row) for unit, run in counted.items()]
    above = units.funnel.steps_above(row)
    where = "before step 1"
    if above:
        is_last = above == len(units.funnel.steps)
        where = f"after step {above}" if is_last else f"between steps {above} and {above + 1}"
    return {
        "row": row.position,
        "afterStep": above,
        "where": where,
        **identity(units, row),
        "units": sum(is_seen(row, events) for events in seen),
        "events": sum(map(len, seen)),
    }


def data_quality(
    units: Units, selected: Mapping[Unit, Run], start_ms: int | None, end_ms: int | None
) -> dict[str, Any]:
    """Return the report's `dataQuality`. selected: the runs of all cohorts in the period."""
    funnel, keys = units.funnel, units.definition["breakdownProperties"]
    runs = list(selected.values())
    required = {
        unit: [event for event in units.own(unit, run) if event.is_required(funnel)]
        for unit, run in selected.items()
    }
    invalid = {unit: sum(event.is_invalid for event in required[unit]) for unit in selected}
    of_steps = [
        event
        for event in units.events
        if (start_ms is None or start_ms <= event.at_ms)
        and (end_ms is None or event.at_ms < end_ms)
        and unit_event(units.definition, event).is_required(funnel)
    ]
    return {
        "eventsWithoutAttemptId": sum(
            funnel.counts_attempts
            and attempt_id(units.definition, event, units.visitors[event.event_id]) is None
            for event in of_steps
        ),
        "invalidSequenceValues": sum(invalid.values()),
        "sequenceSkips": sum(len(run.skipped) for run in runs),
        "unorderedTies": sum(len(run.tied) for run in runs),
        "unitsWithOrderingIssues": sum(
            bool(run.skipped or run.tied or invalid[unit]) for unit, run in selected.items()
        ),
        "assumedOrder": sum(len(run.assumed) for run in runs),
        "tiedEntries": sum(run.by_agreement for run in runs),
        "unknownEntryValues": {
            key: sum(run.values[position] is None for run in runs)
            for position, key in enumerate(keys)
        },
        "conflictingEntryValues": {
            key: sum(
                conflicts(funnel, units.history(unit), run, position)
                for unit, run in selected.items()
            )
            for position, key in enumerate(keys)
        },
        "unverifiedProviderEvents": sum(event in units.left_out for event in of_steps),
        "coarseTimes": sum(
            coarse_times(funnel, units.own(unit, run)) for unit, run in selected.items()
        ),
        "attemptsWithSeveralVisitors": sum(
            funnel.counts_attempts and len({units.visitors[event.id] for event in events}) > 1
            for events in required.values()
        ),
        "unitsOverLimit": 0,
        "lostOnDevices": 0,
    }
