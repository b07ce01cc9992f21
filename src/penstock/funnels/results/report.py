"""The counted part of a report, in the contract's words. Source: contract, "Funnels"; funnel semantics, "Outcome", "Data quality"."""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.base.rates import rate
from penstock.funnels.definitions.model import Definition, Row

MS_PER_MINUTE = 60_000


def aggregate_of(definition: Definition, counted: Mapping[str, Any]) -> dict[str, Any]:
    """`aggregate`, or one cohort's numbers. counted: one row of the statement (`counts[k]`: units that reached step k+1)."""
    n = len(definition.steps)
    counts = _padded(counted["counts"], n)
    pendings = [*_padded(counted["pendings"], n - 1), 0]
    dropped = [counts[k] - counts[k + 1] - pendings[k] for k in range(n - 1)] + [0]
    entered, completed = counts[0], counts[-1]
    return {
        "entered": entered,
        "completed": completed,
        "pending": sum(pendings),
        "droppedOff": sum(dropped),
        "conversionRate": rate(completed, entered),
        "medianCompletionMinutes": counted["median_ms"] / MS_PER_MINUTE if completed else None,
        "steps": _steps(definition, counted, counts, pendings, dropped),
        "diagnostics": _diagnostics(definition, counted),
    }


def _steps(
    definition: Definition, counted: Mapping[str, Any], counts: list[int], pendings: list[int], dropped: list[int]
) -> list[dict[str, Any]]:
    required = [(place, row) for place, row in enumerate(definition.rows) if not row.diagnostic]
    options = iter(_padded(counted["options"], sum(len(row.matches) for _, row in required)))
    return [
        {
            "step": k + 1,
            "row": place,
            **_described(row),
            "count": counts[k],
            "pending": pendings[k],
            "droppedOff": dropped[k],
            "conversionFromStart": rate(counts[k], counts[0]),
            "conversionFromPrevious": rate(counts[k], counts[k - 1]) if k else None,
            "options": [
                {"option": index, "count": counts[k] if row.all_of else count}
                for index, count in enumerate([next(options) for _ in row.matches])
            ],
        }
        for k, (place, row) in enumerate(required)
    ]


def _diagnostics(definition: Definition, counted: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = []
    step = 0
    for place, row in enumerate(definition.rows):
        if row.diagnostic:
            found.append({"row": place, "afterStep": step, **_described(row)})
        else:
            step += 1
    units, events = (_padded(counted[name], len(found)) for name in ("seen_units", "seen_events"))
    return [{**row, "units": units[index], "events": events[index]} for index, row in enumerate(found)]


def _described(row: Row) -> dict[str, str]:
    match = row.matches[0]
    type_, value = row.saved_as or (str(match.type), match.value)
    return {"type": type_, "value": value}


def data_quality_of(definition: Definition, counted: Mapping[str, Any]) -> dict[str, Any]:
    """`dataQuality` over all entry cohorts of the period."""
    names = definition.breakdown_properties
    missing, conflicting = (_padded(counted[name], len(names)) for name in ("missing", "conflicting"))
    return {
        "eventsWithoutAttemptId": counted["unitless"],
        "invalidSequenceValues": counted["invalid"],
        "sequenceSkips": counted["skips"],
        "unorderedTies": counted["ties"],
        "unitsWithOrderingIssues": counted["disordered"],
        "tiedEntries": counted["tied"],
        "unknownEntryValues": dict(zip(names, missing, strict=True)),
        "conflictingEntryValues": dict(zip(names, conflicting, strict=True)),
        "unverifiedProviderEvents": counted["unverified"],
        "attemptsWithSeveralVisitors": counted["several"],
    }


def _padded(values: Sequence[int], length: int) -> list[int]:
    """A list of counts; the engine gives an empty one where it had no rows to add up."""
    return [*values, *([0] * (length - len(values)))]
