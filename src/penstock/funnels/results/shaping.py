"""Turns rows of the report statement into the response of the API. Step 7 of the query path."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from penstock.base.rates import rate
from penstock.base.scalar import untagged
from penstock.funnels.definitions.model import Definition, Row
from penstock.funnels.results.settled import eligible_counts, final_rate, settled_figures
from penstock.funnels.statements import figures
from penstock.funnels.statements.query import QueryParams

MS_PER_MINUTE = 60_000

_NOTHING: Mapping[str, Any] = {
    "cohort_count": 0, "median_ms": None, "counted": [], "quality": [],
}  # fmt: skip
"""The total row to use if the statement returns no rows."""


def shape_report(
    definition: Definition,
    params: QueryParams,
    rows: Sequence[Mapping[str, Any]],
    lost_on_devices: int,
) -> dict[str, Any]:
    """Return the fields `aggregate`, `cohorts` and `dataQuality` of a report.

    rows: the result of `statements.report.build`.
    lost_on_devices: see `data_quality`.
    """
    total = read_total(definition, rows)
    cohorts = [
        _cohort(definition, {**row, **figures.read(definition, row)})
        for row in rows
        if not row["is_total"]
    ]
    cohort_count = total["cohort_count"]
    if not definition.breakdown_properties:
        # Without a breakdown there is one cohort, which may be empty.
        all_units = {"cohort": {}, "label": {}, **_aggregate(definition, total)}
        cohorts = [all_units] if params.page.number == 1 else []
        cohort_count = 1
    return {
        "aggregate": _aggregate(definition, total),
        "cohorts": {
            "page": params.page.number,
            "pageSize": params.page.size,
            "total": cohort_count,
            "data": cohorts,
        },
        "dataQuality": data_quality(definition, total, lost_on_devices),
    }


def read_total(definition: Definition, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the columns and figures of the total. rows: see `shape_report`."""
    row = next((row for row in rows if row["is_total"]), _NOTHING)
    return {**row, **figures.read(definition, row)}


def _cohort(definition: Definition, row: Mapping[str, Any]) -> dict[str, Any]:
    values = [untagged(text) for text in row["texts"]]
    cohort = dict(zip(definition.breakdown_properties, values, strict=True))
    label = {name: "Unknown" if value is None else value for name, value in cohort.items()}
    return {"cohort": cohort, "label": label, **_aggregate(definition, row)}


def _aggregate(definition: Definition, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers for all units or for one cohort.

    row["counts"]: number of units that reached each step.
    """
    n = len(definition.steps)
    counts, pendings = row["counts"], [*row["pendings"], 0]
    excluded = [*row["excluded"], 0]
    eligible = eligible_counts(counts, row["excluded"])
    dropped = [eligible[k] - eligible[k + 1] - pendings[k] for k in range(n - 1)] + [0]
    completed, pending = counts[-1], sum(pendings)
    totals = {"completed": completed, "pending": pending}
    settled = settled_figures(eligible=eligible[0], **totals, early=row["early"])
    bounds = final_rate(eligible=eligible[0], **totals)
    return {
        "entered": counts[0],
        **totals,
        "droppedOff": sum(dropped),
        "excluded": sum(excluded),
        "conversionRate": rate(completed, eligible[0]),
        "settled": settled["settled"],
        "settledRate": settled["settled_rate"],
        "earlyCompletions": settled["early_completions"],
        "finalRate": bounds and bounds.model_dump(),
        "medianCompletionMinutes": row["median_ms"] / MS_PER_MINUTE if completed else None,
        "steps": _steps(definition, row, eligible, dropped),
        "diagnostics": _diagnostics(definition, row),
    }


def _steps(
    definition: Definition,
    row: Mapping[str, Any],
    eligible: Sequence[int],
    dropped: Sequence[int],
) -> list[dict[str, Any]]:
    """Return the steps. eligible: number of eligible units that reached each step."""
    counts, pendings, excluded = row["counts"], [*row["pendings"], 0], [*row["excluded"], 0]
    # Settled units that reached each step: eligible units that reached it, minus those that are
    # still open.
    still_open = list(accumulate(reversed([*row["pendings"], row["early"]])))[::-1]
    settled = [count - open_ for count, open_ in zip(eligible, still_open, strict=True)]
    required = [(place, step) for place, step in enumerate(definition.rows) if step.required]
    options = iter(row["options"])
    return [
        {
            "step": k + 1,
            "row": place,
            **identify(step),
            "count": counts[k],
            "pending": pendings[k],
            "droppedOff": dropped[k],
            "excluded": excluded[k],
            "conversionFromStart": rate(eligible[k], eligible[0]),
            "conversionFromPrevious": rate(eligible[k], eligible[k - 1]) if k else None,
            "settled": settled[k],
            "settledFromStart": rate(settled[k], settled[0]),
            "settledFromPrevious": rate(settled[k], settled[k - 1]) if k else None,
            "options": [
                {"option": index, "count": counts[k] if step.all_of else count}
                for index, count in enumerate([next(options) for _ in step.matches])
            ],
        }
        for k, (place, step) in enumerate(required)
    ]


def _diagnostics(definition: Definition, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {**place, "units": units, "events": events}
        for place, units, events in zip(
            locate_diagnostics(definition), row["seen_units"], row["seen_events"], strict=True
        )
    ]


def locate_diagnostics(definition: Definition) -> list[dict[str, Any]]:
    """Return the diagnostic rows with the place where each looks for events."""
    places = []
    step = 0
    for place, row in enumerate(definition.rows):
        if row.diagnostic:
            looks = {"afterStep": step, "where": _describe_place(step, len(definition.steps))}
            places.append({"row": place, **looks, **identify(row)})
        step += row.required
    return places


def _describe_place(step: int, n: int) -> str:
    """Describe where a diagnostic row below a step looks. step: 0 above the first step."""
    if not step:
        return "before step 1"
    return f"between steps {step} and {step + 1}" if step < n else f"after step {step}"


def identify(row: Row) -> dict[str, str | None]:
    """Return the type and value of a row as they were saved, and its name, if it has one."""
    match = row.matches[0]
    type_, value = row.saved_as or (str(match.type), match.value)
    return {"type": type_, "value": value, "name": row.name}


def data_quality(
    definition: Definition, row: Mapping[str, Any], lost_on_devices: int
) -> dict[str, Any]:
    """Return the fields of `DataQualityRecord`.

    row: the columns and figures of the total.
    lost_on_devices: number of events that clients reported as dropped.
    """
    names = definition.breakdown_properties
    return {
        "eventsWithoutAttemptId": row["unitless"],
        "invalidSequenceValues": row["invalid"],
        "sequenceSkips": row["skips"],
        "unorderedTies": row["ties"],
        "unitsWithOrderingIssues": row["disordered"],
        "assumedOrder": row["assumed"],
        "tiedEntries": row["tied"],
        "unknownEntryValues": dict(zip(names, row["missing"], strict=True)),
        "conflictingEntryValues": dict(zip(names, row["conflicting"], strict=True)),
        "unverifiedProviderEvents": row["unverified"],
        "coarseTimes": row["coarse"],
        "attemptsWithSeveralVisitors": row["several"],
        "unitsOverLimit": row["cut"],
        "lostOnDevices": lost_on_devices,
    }
