"""What was decided on each event of one unit, and whether and why a stored event counts."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.base.clock import iso, iso_or_none
from penstock.base.errors import Fault, Invalid, NotFound
from penstock.base.ids import WorkspaceId
from penstock.base.scalar import COMPOSITE, MISSING, untagged
from penstock.funnels.definitions.model import CountingUnit, Definition
from penstock.funnels.results.asking import Asker, bad_parameters
from penstock.funnels.results.inquiry import Inquiry
from penstock.funnels.results.schema import PeriodQuery
from penstock.funnels.statements.matching import TYPES
from penstock.funnels.statements.one_unit import Whose, attempt_named, one_event, unit_events, visitors_named, visitors_of_attempt
from penstock.funnels.statements.query import UNUSABLE, Question
from penstock.funnels.units.explaining import LEFT_OUT, Explained, explained
from penstock.funnels.units.schema import (
    CompletedStepRecord,
    ConflictRecord,
    EntryValueRecord,
    ExplainQuery,
    ExplainRecord,
    TracedEventRecord,
    TraceRecord,
)
from penstock.funnels.units.service import UnitService, outcome_of
from penstock.funnels.units.trace import Decision, Journey, Reading, chosen_journey, conflicts, in_period

MOST_EVENTS = 5_000
_COUNTING = (Decision.ENTRY, Decision.ACCEPTED, Decision.DIAGNOSTIC)


@dataclass(frozen=True, slots=True)
class Unit:
    """The events of a unit as the engine gave them, and what the rules make of them.

    journey: the one that counts; of a unit that is not selected, the one that would without the period. left_out: of payment providers.
    """

    name: str
    rows: Sequence[Mapping[str, Any]]
    journey: Journey | None
    selected: bool
    decisions: Mapping[str, Explained]
    matching_only: bool


class TraceService:
    """Its methods block; call them from a worker thread."""

    def __init__(self, asker: Asker, units: UnitService) -> None:
        self._asker, self._units = asker, units

    def trace(self, workspace_id: WorkspaceId, funnel_id: str, query: PeriodQuery, unit: str) -> TraceRecord:
        """NotFound when no event of the unit is retained; other errors as of `Asker.saved`."""
        inquiry = self._asker.saved(workspace_id, funnel_id, query)
        if "\x00" in unit or not unit:
            raise _unknown_unit(inquiry.definition)
        whose = attempt_named(unit)
        if inquiry.definition.counting_unit is CountingUnit.VISITOR:
            whose = Whose(tuple(record["unit"] for record in self._asker.records(visitors_named(inquiry.question, unit), inquiry)))
        return self._record(inquiry, self._unit(inquiry, unit, whose))

    def explain(self, workspace_id: WorkspaceId, funnel_id: str, query: ExplainQuery) -> ExplainRecord:
        """NotFound when no such event is retained; other errors as of `Asker.saved`."""
        inquiry = self._asker.saved(workspace_id, funnel_id, query)
        definition = inquiry.definition
        statement = one_event(definition, inquiry.question, inquiry.facts, query.event_id, read_properties(definition))
        found = self._asker.records(statement, inquiry)
        if not found:
            raise NotFound("No event of this ID is retained, or its time has not come yet.", code="event_not_found")
        event = found[0]
        if event["unit"] == 0:
            needed = f"{definition.attempt_property} must be a non-empty text or an integer"
            return ExplainRecord.model_validate(
                {
                    **inquiry.head, "eventId": query.event_id, "unit": None, "counts": False, "selected": False,
                    "decision": Decision.NO_MATCH, "step": None, "row": None, "unitSummary": None,
                    "explanation": f"The event carries no attempt ID: {needed}.",
                }
            )  # fmt: skip
        [name] = self._units.names(inquiry, [event["unit"]], every_name=True).values()
        by_attempt = definition.counting_unit is CountingUnit.ATTEMPT
        unit = self._unit(inquiry, name, attempt_named(name) if by_attempt else Whose((event["unit"],)))
        decided = unit.decisions.get(query.event_id) or Explained(Decision.NO_MATCH, None, None, (), "Matches no row of the funnel.")
        return ExplainRecord.model_validate(
            {
                **inquiry.head,
                "eventId": query.event_id,
                "unit": name,
                "counts": unit.selected and (decided.decision in _COUNTING or bool(decided.diagnostic_rows)),
                "selected": unit.selected,
                "decision": decided.decision,
                "step": decided.step,
                "row": decided.row,
                "explanation": decided.sentence,
                "unitSummary": _summary(inquiry, unit),
            }
        )

    def _unit(self, inquiry: Inquiry, name: str, whose: Whose) -> Unit:
        definition, question = inquiry.definition, inquiry.question
        rows, matching_only = self._events(inquiry, whose)
        if not rows:
            raise _unknown_unit(definition)
        if len({row["visitor"] for row in rows}) > 1 and definition.counting_unit is CountingUnit.VISITOR:
            raise bad_parameters({"websiteId": "This visitor ID stands for different visitors on several websites; say which website."})
        witnesses: set[int] = set()
        if any(row["provider"] for row in rows) and definition.counting_unit is CountingUnit.ATTEMPT:
            statement = visitors_of_attempt(definition, question, inquiry.facts, whose)
            witnesses = {record["visitor"] for record in self._asker.records(statement, inquiry)}
        return unit_of(definition, question, name, rows, witnesses, matching_only=matching_only)

    def _events(self, inquiry: Inquiry, whose: Whose) -> tuple[list[dict[str, Any]], bool]:
        """The unit's events, and whether those that match no row are left out, because there are so many."""
        for matching in (False, True):
            statement = unit_events(
                inquiry.definition, inquiry.question, inquiry.facts, whose, read_properties(inquiry.definition), MOST_EVENTS + 1,
                matching=matching,
            )  # fmt: skip
            rows = self._asker.records(statement, inquiry)
            if len(rows) <= MOST_EVENTS:
                return rows, matching
        told = f"More than {MOST_EVENTS:,} events of this unit match a row of the funnel; a trace takes no more."
        raise Invalid([Fault("unit", "trace_too_long", told)])

    def _record(self, inquiry: Inquiry, unit: Unit) -> TraceRecord:
        definition, journey = inquiry.definition, unit.journey
        by_visitor = replace(definition, counting_unit=CountingUnit.VISITOR, attempt_property=None)
        visitors = self._units.names(inquiry, sorted({row["visitor"] for row in unit.rows}), by_visitor)
        outcome = None
        if journey is not None:
            outcome = outcome_of(definition, journey.reached, journey.window_end_ms, inquiry.question.evaluated_at_ms)
        done = journey is not None and journey.reached == len(definition.steps)
        return TraceRecord.model_validate(
            {
                **inquiry.head,
                "unit": unit.name if definition.attempt_property else next(iter(visitors.values()), unit.name),
                "selected": unit.selected,
                "summary": _summary(inquiry, unit),
                "visitors": sorted(visitors.values()),
                "entryAt": iso(journey.entry_ms) if journey else None,
                "windowEndsAt": iso_or_none(journey.window_end_ms) if journey else None,
                "reached": journey.reached if journey else 0,
                "outcome": outcome,
                "completedAt": iso(journey.completed[-1].at_ms) if journey and done else None,
                "steps": _steps(journey),
                "entryValues": _entry_values(definition, journey) if journey else {},
                "conflicts": _conflicts(definition, journey) if journey else [],
                "matchingOnly": unit.matching_only,
                "events": [_event(definition, row, unit.decisions[row["event_id"]], visitors) for row in unit.rows],
            }
        )


def unit_of(
    definition: Definition,
    question: Question,
    name: str,
    rows: Sequence[Mapping[str, Any]],
    witnesses: Collection[int],
    *,
    matching_only: bool,
) -> Unit:
    """What the rules make of a unit's events. witnesses: the visitors of the attempt's events that are no payment provider's (R18)."""
    by_attempt = definition.counting_unit is CountingUnit.ATTEMPT
    read = sorted(((_reading(definition, row), row) for row in rows), key=lambda pair: pair[0].order)
    left_out = {row["event_id"] for row in rows if by_attempt and row["provider"] and not (row["verified"] and row["visitor"] in witnesses)}
    readings = [reading for reading, _ in read if reading.event_id not in left_out]
    journey = chosen_journey(definition, readings, question.start_ms, question.end_ms)
    selected = journey is not None
    journey = journey or chosen_journey(definition, readings, None, None)
    decisions = explained(definition, journey, readings)
    decisions |= {event_id: Explained(Decision.UNVERIFIED_PROVIDER, None, None, (), LEFT_OUT) for event_id in left_out}
    return Unit(name, [row for _, row in read], journey, selected, decisions, matching_only)


def read_properties(definition: Definition) -> list[str]:
    """The properties that the funnel reads: those of its units, numbers, cohorts and filters."""
    named = (definition.attempt_property, definition.sequence_property, *definition.breakdown_properties)
    filtered = (item.property for row in definition.rows for match in row.matches for item in match.filters)
    return list(dict.fromkeys(name for name in (*named, *filtered) if name is not None))


def _reading(definition: Definition, row: Mapping[str, Any]) -> Reading:
    """An event as the engine matched it."""
    matched, bits = [], row["mask"]
    for definition_row in definition.rows:
        matched.append(frozenset(at for at in range(len(definition_row.matches)) if bits >> at & 1))
        bits >>= len(definition_row.matches)
    texts = dict(zip(read_properties(definition), row["texts"], strict=True))
    values = tuple(MISSING if texts[name] == COMPOSITE else texts[name] for name in definition.breakdown_properties)
    number = None if row["seq"] == UNUSABLE else row["seq"]
    return Reading(row["event_id"], row["ts"], number, bool(row["invalid"]), tuple(matched), values)


def _event(definition: Definition, row: Mapping[str, Any], decided: Explained, visitors: Mapping[int, str]) -> TracedEventRecord:
    reading = _reading(definition, row)
    texts = zip(read_properties(definition), row["texts"], strict=True)
    return TracedEventRecord(
        event_id=row["event_id"],
        occurred_at=iso(row["ts"]),
        type=TYPES[row["kind"]],
        name=row["name"],
        source=row["source"],
        visitor_id=visitors.get(row["visitor"], row["visitor_id"]),
        sequence_number=reading.number,
        invalid_sequence_value=reading.invalid,
        properties={name: None if text == COMPOSITE else untagged(text) for name, text in texts if text},
        decision=decided.decision,
        step=decided.step,
        row=decided.row,
        diagnostic_rows=list(decided.diagnostic_rows),
        explanation=decided.sentence,
    )


def _steps(journey: Journey | None) -> list[CompletedStepRecord]:
    completed = journey.completed if journey else ()
    return [
        CompletedStepRecord(step=step, event_id=reading.event_id, at=iso(reading.at_ms)) for step, reading in enumerate(completed, start=1)
    ]


def _entry_values(definition: Definition, journey: Journey) -> dict[str, EntryValueRecord]:
    values = {}
    for place, name in enumerate(definition.breakdown_properties):
        sources = list(journey.rivals) if journey.tied else [journey.entry]
        told = {reading.values[place] for reading in sources}
        how = "missing" if told == {MISSING} else "entryEvent" if not journey.tied else "agreed" if len(told) == 1 else "disagreed"
        values[name] = EntryValueRecord.model_validate(
            {"value": untagged(journey.values[place]), "how": how, "eventIds": [reading.event_id for reading in sources]}
        )
    return values


def _conflicts(definition: Definition, journey: Journey) -> list[ConflictRecord]:
    return [
        ConflictRecord(
            property=name,
            entry_value=untagged(journey.values[place]),
            value=untagged(reading.values[place]),
            event_id=reading.event_id,
            occurred_at=iso(reading.at_ms),
        )
        for place, name in enumerate(definition.breakdown_properties)
        for reading in conflicts(journey, place)
    ]


def _summary(inquiry: Inquiry, unit: Unit) -> str:
    """What came of the unit, in one or two sentences."""
    definition, question, journey = inquiry.definition, inquiry.question, unit.journey
    kind = "attempt" if definition.counting_unit is CountingUnit.ATTEMPT else "visitor"
    if journey is None:
        return f"The {kind} never completed step 1, so it is not in the report."
    n, reached = len(definition.steps), journey.reached
    entered = f"Entered at {iso(journey.entry_ms)}"
    if reached == n:
        came = f"and completed all {n} steps at {iso(journey.completed[-1].at_ms)}."
    elif journey.window_end_ms is None:
        came = f"and came to step {reached} of {n}; the window never ends, so it may still complete."
    elif journey.is_open(question.evaluated_at_ms):
        came = f"and came to step {reached} of {n} so far; the window is open until {iso(journey.window_end_ms)}."
    else:
        came = f"and came to step {reached} of {n}; the window ended at {iso(journey.window_end_ms)}."
    outside = (
        "" if unit.selected or in_period(journey.entry_ms, question.start_ms, question.end_ms) else " The entry lies outside the period."
    )
    return f"{entered} {came}{outside}"


def _unknown_unit(definition: Definition) -> NotFound:
    kind = "attempt" if definition.counting_unit is CountingUnit.ATTEMPT else "visitor"
    return NotFound(f"No event of this {kind} is retained. Check the ID against those under /units, and websiteId.", code="unit_not_found")
