"""Traces and explanations as the API returns them."""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.base.clock import iso, iso_or_none
from penstock.base.scalar import COMPOSITE, MISSING, untagged
from penstock.base.wording import listed
from penstock.funnels.definitions.builtins import ATTEMPT_BUILTINS, SESSION_KEY, is_of_visitor
from penstock.funnels.definitions.model import Definition
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.provenance import Provenance, head_of
from penstock.funnels.statements.entries import MAX_UNIT_EVENTS
from penstock.funnels.statements.matching import TYPES
from penstock.funnels.statements.query import QueryParams
from penstock.funnels.units.breakdown import breakdown_values
from penstock.funnels.units.explanation import Explanation, reason_not_to_enter
from penstock.funnels.units.path import Decision, FunnelPath
from penstock.funnels.units.run_names import run_name
from penstock.funnels.units.schema import (
    CompletedStepRecord,
    ConflictRecord,
    EntryValueRecord,
    ExplainRecord,
    TracedEventRecord,
    TraceRecord,
)
from penstock.funnels.units.service import outcome_of
from penstock.funnels.units.trace import is_in_period
from penstock.funnels.units.traced_unit import Unit, fits_settled, matched_event
from penstock.metadb.person import PersonName

_COUNTING = (Decision.ENTRY, Decision.ACCEPTED, Decision.DIAGNOSTIC, Decision.EXCLUSION)


def trace_record(
    context: QueryContext,
    provenance: Provenance,
    unit: Unit,
    visitors: Mapping[int, str],
    people: Mapping[int, PersonName],
) -> TraceRecord:
    """Return the trace of a unit. visitors, people: the IDs and users of its visitors by key."""
    definition, path = context.definition, unit.path
    person = people.get(_owner(unit))
    outcome = None
    if path is not None:
        outcome = outcome_of(
            definition,
            path.reached,
            path.window_end_ms,
            context.params.evaluated_at_ms,
            is_excluded=path.excluded_by is not None,
        )
    done = path is not None and path.reached == len(definition.steps)
    return TraceRecord(
        **head_of(context, provenance),
        unit=_name(definition, unit, visitors),
        user_id=person and person.user_id,
        person=person and person.name,
        selected=unit.selected,
        summary=_summary(context, unit),
        visitors=sorted(visitors.values()),
        entry_at=iso(path.entry_ms) if path else None,
        window_ends_at=iso_or_none(path.window_end_ms) if path else None,
        reached=path.reached if path else 0,
        outcome=outcome,
        completed_at=iso(path.done_ms[-1]) if path and done else None,
        excluded_at=iso_or_none(path.excluded_ms) if path else None,
        steps=_steps(path),
        entry_values=_entry_values(definition, path) if path else {},
        conflicts=_conflicts(definition, path) if path else [],
        matching_only=unit.matching_only,
        truncated=unit.truncated,
        events=[
            _event(definition, row, unit.decisions[row["event_id"]], visitors) for row in unit.rows
        ],
    )


def _owner(unit: Unit) -> int:
    """Return the key of the visitor of the unit's entry, or else of its first event."""
    entry_id = unit.path.entry.event_id if unit.path is not None else None
    entry = next((row for row in unit.rows if row["event_id"] == entry_id), unit.rows[0])
    return int(entry["visitor"])


def _name(definition: Definition, unit: Unit, visitors: Mapping[int, str]) -> str:
    if definition.attempt_keys:
        return unit.name
    visitor_id = next(iter(visitors.values()), unit.name)
    if not definition.repeat or unit.path is None:
        return visitor_id
    return run_name(visitor_id, unit.path.entry.event_id)


def explain_record(
    context: QueryContext, provenance: Provenance, event: Mapping[str, Any], unit: Unit
) -> ExplainRecord:
    explanation = unit.decisions.get(event["event_id"])
    if explanation is None and not event["mask"]:
        sentence = "Matches no row of the funnel."
        explanation = Explanation(Decision.NO_MATCH, None, None, (), sentence)
    decided: dict[str, Any] = {
        "counts": None,
        "selected": unit.selected or None,
        "decision": None,
        "step": None,
        "row": None,
        "explanation": f"Not decided: the event comes after the first {len(unit.rows):,} of its "
        "unit that match the funnel, and only those are traced.",
    }
    if explanation is not None:
        counts = explanation.decision in _COUNTING or bool(explanation.diagnostic_rows)
        decided = {
            "counts": unit.selected and counts,
            "selected": unit.selected,
            "decision": explanation.decision,
            "step": explanation.step,
            "row": explanation.row,
            "explanation": explanation.sentence,
        }
    return ExplainRecord(
        **head_of(context, provenance),
        **_ids(event),
        unit=_name(context.definition, unit, {}),
        **decided,
        truncated=unit.truncated,
        unit_summary=_summary(context, unit),
    )


def _ids(event: Mapping[str, Any]) -> dict[str, str | None]:
    return {"event_id": event["event_id"], "client_event_id": event["client_event_id"] or None}


def record_without_attempt(
    context: QueryContext, provenance: Provenance, event: Mapping[str, Any]
) -> ExplainRecord:
    """Return the explanation of an event without an attempt ID."""
    return ExplainRecord(
        **head_of(context, provenance),
        **_ids(event),
        unit=None,
        counts=False,
        selected=False,
        decision=Decision.NO_MATCH,
        step=None,
        row=None,
        explanation="The event has no attempt ID: "
        f"{_rule_of_attempt_ids(context.definition.attempt_keys, event['source'])}.",
        truncated=False,
        unit_summary=None,
    )


def _rule_of_attempt_ids(keys: Sequence[str], source: str) -> str:
    """Return in words what an event of this source needs to have an attempt ID."""
    if source == "provider" and all(map(is_of_visitor, keys)):
        return f"payment events never count by {listed(keys)} alone"
    rules = []
    if own := [key for key in keys if key not in ATTEMPT_BUILTINS]:
        must = "must each" if len(own) > 1 else "must"
        rules.append(
            f"{listed(own)} {must} be an integer, or a text other than null, undefined and blanks"
        )
    if SESSION_KEY in keys:
        rules.append("the event must belong to a session of the tracker")
    return ", and ".join(rules)


def _event(
    definition: Definition,
    row: Mapping[str, Any],
    explanation: Explanation,
    visitors: Mapping[int, str],
) -> TracedEventRecord:
    event = matched_event(definition, row)
    texts = zip(definition.read_properties, row["texts"], strict=True)
    return TracedEventRecord(
        event_id=row["event_id"],
        client_event_id=row["client_event_id"] or None,
        occurred_at=iso(row["ts"]),
        whole_second=event.coarse,
        type=TYPES[row["kind"]],
        name=row["name"],
        source=row["source"],
        visitor_id=visitors.get(row["visitor"], row["visitor_id"]),
        sequence_number=event.number,
        invalid_sequence_value=event.invalid,
        properties={
            name: None if text == COMPOSITE else untagged(text) for name, text in texts if text
        },
        decision=explanation.decision,
        step=explanation.step,
        row=explanation.row,
        diagnostic_rows=list(explanation.diagnostic_rows),
        explanation=explanation.sentence,
    )


def _steps(path: FunnelPath | None) -> list[CompletedStepRecord]:
    completed = zip(path.completed, path.done_ms, strict=True) if path else ()
    return [
        CompletedStepRecord(step=step, event_id=event.event_id, at=iso(at_ms))
        for step, (event, at_ms) in enumerate(completed, start=1)
    ]


def _entry_values(definition: Definition, path: FunnelPath) -> dict[str, EntryValueRecord]:
    values = {}
    named = zip(definition.breakdown_properties, breakdown_values(definition, path), strict=True)
    for index, (name, given) in enumerate(named):
        source_values = {event.values[index] for event in given.sources}
        how = (
            "missing"
            if source_values <= {MISSING}
            else "entryEvent"
            if not given.tied
            else "agreed"
            if len(source_values) == 1
            else "disagreed"
        )
        if how == "entryEvent" and not definition.is_by_entry:
            how = "event"
        values[name] = EntryValueRecord.model_validate(
            {
                "value": untagged(given.value),
                "how": how,
                "eventIds": [event.event_id for event in given.sources],
            }
        )
    return values


def _conflicts(definition: Definition, path: FunnelPath) -> list[ConflictRecord]:
    return [
        ConflictRecord(
            property=name,
            entry_value=untagged(given.value),
            value=untagged(event.values[index]),
            event_id=event.event_id,
            occurred_at=iso(event.at_ms),
        )
        for index, (name, given) in enumerate(
            zip(definition.breakdown_properties, breakdown_values(definition, path), strict=True)
        )
        for event in given.conflicts
    ]


def _summary(context: QueryContext, unit: Unit) -> str:
    """Return the outcome of the unit, in a few sentences."""
    outcome = _outcome(context, unit)
    if not unit.truncated:
        return outcome
    return (
        f"{outcome} Only its first {len(unit.rows):,} events that match the funnel were read; "
        f"a report reads up to {MAX_UNIT_EVENTS:,}."
    )


def _outcome(context: QueryContext, unit: Unit) -> str:
    definition, params, path = context.definition, context.params, unit.path
    if path is None:
        return f"The {definition.counting_unit} never completed step 1, so it is not in the report."
    n, reached = len(definition.steps), path.reached
    entry = f"Entered at {iso(path.entry_ms)}"
    if path.excluded_ms is not None:
        at = iso(path.excluded_ms)
        outcome = f"and was excluded after step {reached} of {n} at {at}."
    elif reached == n:
        outcome = f"and completed all {n} steps at {iso(path.done_ms[-1])}."
    elif path.window_end_ms is None:
        outcome = f"and reached step {reached} of {n}; the window never ends, so it may complete."
    elif path.in_window(params.evaluated_at_ms):
        end = iso(path.window_end_ms)
        outcome = f"and reached step {reached} of {n} so far; the window is open until {end}."
    else:
        end = iso(path.window_end_ms)
        outcome = f"and reached step {reached} of {n}; the window ended at {end}."
    if not path.in_window(params.evaluated_at_ms) and path.is_open(
        definition, params.evaluated_at_ms
    ):
        outcome += " It may still complete, because the visitor entered again."
    return f"{entry} {outcome}{_reason_to_leave_out(definition, unit, path, params)}"


def _reason_to_leave_out(
    definition: Definition, unit: Unit, path: FunnelPath, params: QueryParams
) -> str:
    """Return a sentence that says why the report does not count a unit; empty if it does."""
    if unit.selected:
        return ""
    if not is_in_period(path.entry_ms, params.start_ms, params.end_ms):
        return " The entry is outside the period."
    if not path.passes:
        return f" The entry {reason_not_to_enter(definition)}."
    if not fits_settled(definition, path, params):
        return " It is not settled: the request leaves out units whose window is open."
    return ""
