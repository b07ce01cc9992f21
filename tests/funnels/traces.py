"""Compares the trace of each unit with the reference evaluation."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from penstock.base.scalar import tagged
from penstock.funnels.definitions.model import Definition
from penstock.funnels.units.breakdown import breakdown_values
from penstock.funnels.units.path import (
    Decision,
    FunnelPath,
    MatchedEvent,
    coarse_times,
    fills_row,
    seen_by_diagnostics,
)
from penstock.funnels.units.trace import chosen_path, funnel_paths
from tests.funnels.reference import runs
from tests.funnels.reference.matching import as_json
from tests.funnels.reference.report import Units, is_settled, may_complete
from tests.funnels.strategies import Case


def differing_traces(case: Case, units: Units) -> Iterator[str]:
    """Yield a message for each trace that differs from the reference evaluation."""
    for unit, events in units.by_unit.items():
        if case.definition.repeat:
            yield from differing_runs(case, units, events)
            continue
        run = runs.counted_run(units.runs(events), case.start_ms, case.end_ms)
        traced = [matched_event(event, units.funnel) for event in events]
        path = chosen_path(case.definition, traced, case.start_ms, case.end_ms)
        expected = (
            None if run is None else reference_facts(units, events, run, case.evaluated_at_ms)
        )
        shown = None if path is None else trace_facts(case.definition, path, case.evaluated_at_ms)
        if shown != expected:
            yield f"{unit}\n- reference: {expected}\n+ trace: {shown}"


def differing_runs(case: Case, units: Units, events: Sequence[runs.UnitEvent]) -> Iterator[str]:
    """Yield a message for each run of a visitor whose trace differs."""
    traced = [matched_event(event, units.funnel) for event in events]
    for run, path in zip_longest(
        runs.all_runs(units.funnel, events), funnel_paths(case.definition, traced)
    ):
        expected = run and reference_facts(units, events, run, case.evaluated_at_ms)
        shown = path and trace_facts(case.definition, path, case.evaluated_at_ms)
        if shown != expected:
            yield f"- reference: {expected}\n+ trace: {shown}"


def matched_event(event: runs.UnitEvent, funnel: runs.Funnel | None = None) -> MatchedEvent:
    return MatchedEvent(
        event_id=event.id,
        at_ms=event.at_ms,
        number=event.number,
        invalid=event.is_invalid,
        matched=tuple(map(frozenset, event.satisfied)),
        values=tuple(tagged(as_json(value)) for value in event.values),
        coarse=event.is_whole_second,
        met=()
        if funnel is None
        else tuple(
            holds(value) for holds, value in zip(funnel.conditions, event.compared, strict=True)
        ),
        compared=event.compared,
        is_sent=event.is_sent,
    )


def reference_facts(
    units: Units, events: Sequence[runs.UnitEvent], run: runs.Run, evaluated_at_ms: int
) -> dict[str, Any]:
    units.break_down(events, run)
    funnel = units.funnel
    above = [row for row in funnel.rows if row.is_diagnostic and is_reached(funnel, run, row)]
    seen = {row.position: runs.seen_by(funnel, events, run, row) for row in above}
    return {
        "entry": run.entry.id,
        "values": [tagged(as_json(value)) for value in run.values],
        "by agreement": run.by_agreement,
        "done": run.done_ms,
        "options": run.options,
        "open": may_complete(units, run, evaluated_at_ms),
        "settled": is_settled(units, run, evaluated_at_ms),
        "accepted": {event.id for event in run.accepted},
        "skipped": {event.id for event in run.skipped},
        # A trace shows the last decision on an event.
        "tied": {event.id for event in run.tied if event is not run.excluded_by}
        - {event.id for event in (*run.skipped, *run.accepted)},
        "ties": len(run.tied),
        "seen": {position: {event.id for event in own} for position, own in seen.items()},
        "full": {row.position: runs.is_seen(row, seen[row.position]) for row in above},
        "conflicts": [
            runs.conflicts(funnel, events, run, position) for position in range(len(run.values))
        ],
        "coarse": runs.coarse_times(funnel, events),
        "excluded by": run.excluded_by and run.excluded_by.id,
        "assumed": {event.id for event in run.assumed},
    }


def is_reached(funnel: runs.Funnel, run: runs.Run, row: runs.Row) -> bool:
    return run.reached >= funnel.steps_above(row)


def trace_facts(definition: Definition, path: FunnelPath, evaluated_at_ms: int) -> dict[str, Any]:
    def decided(decision: Decision) -> list[str]:
        return [key for key, verdict in path.verdicts.items() if verdict.decision is decision]

    seen = seen_by_diagnostics(definition, path)
    values = breakdown_values(definition, path)
    return {
        "entry": path.entry.event_id,
        "values": [item.value for item in values],
        "by agreement": any(item.tied for item in values) if values else path.tied,
        "done": path.done_ms,
        "options": [set(options) for options in path.options],
        "open": path.is_open(definition, evaluated_at_ms),
        "settled": path.is_settled(definition, evaluated_at_ms),
        "accepted": {event.event_id for event in path.accepted},
        "skipped": set(decided(Decision.SEQUENCE_SKIP)),
        "tied": set(decided(Decision.UNORDERED_TIE)),
        "ties": path.ties,
        "seen": {position: {event.event_id for event in own} for position, own in seen.items()},
        "full": {
            position: fills_row(definition.rows[position], position, own)
            for position, own in seen.items()
        },
        "conflicts": [bool(item.conflicts) for item in values],
        "coarse": coarse_times(definition, path.events),
        "excluded by": path.excluded_by and path.excluded_by.event_id,
        "assumed": {event.event_id for event in path.assumed},
    }
