"""The decision on each event of one unit, and why one stored event counts or not."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from penstock.base.clock import iso, iso_or_none
from penstock.base.errors import Fault, Invalid, NotFound
from penstock.base.ids import WorkspaceId
from penstock.base.scalar import COMPOSITE, MISSING, untagged
from penstock.funnels.definitions.model import CountingUnit, Definition
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.parameters import Selection, unfit_parameters
from penstock.funnels.queries.pipeline import FunnelQueryRunner
from penstock.funnels.queries.provenance import Provenance, head_of
from penstock.funnels.queries.resolve import SavedFunnel
from penstock.funnels.queries.schema import PeriodQuery
from penstock.funnels.statements.entries import MAX_UNIT_EVENTS
from penstock.funnels.statements.matching import TYPES
from penstock.funnels.statements.one_unit import (
    UnitSelector,
    attempt_named,
    events_with_id,
    unit_events,
    visitors_named,
    visitors_of_attempt,
)
from penstock.funnels.statements.query import UNUSABLE, QueryParams
from penstock.funnels.units.explanation import Explanation, explain_events, left_out
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
from penstock.funnels.units.trace import (
    Decision,
    FunnelPath,
    MatchedEvent,
    chosen_path,
    conflicts,
    in_period,
)

MAX_EVENTS = 5_000
_COUNTING = (Decision.ENTRY, Decision.ACCEPTED, Decision.DIAGNOSTIC)


@dataclass(frozen=True, slots=True)
class Unit:
    """The events of a unit, and what the rules make of them.

    path: the one that counts; of a unit outside the period, the one that would count without it.
    matching_only: whether events that match no row are left out. truncated: whether only the
    first of those that match one were read.
    """

    name: str
    rows: Sequence[Mapping[str, Any]]
    path: FunnelPath | None
    selected: bool
    decisions: Mapping[str, Explanation]
    matching_only: bool
    truncated: bool


class _UnitEvents(NamedTuple):
    """Events of a unit. matching_only, truncated: as of `Unit`."""

    rows: Sequence[Mapping[str, Any]]
    provenance: Provenance
    matching_only: bool
    truncated: bool


class TraceService:
    """Methods block: call them from a worker thread."""

    def __init__(self, runner: FunnelQueryRunner, units: UnitService) -> None:
        self._runner, self._units = runner, units

    def trace(
        self, workspace_id: WorkspaceId, funnel_id: str, query: PeriodQuery, unit: str
    ) -> TraceRecord:
        """NotFound when no event of the unit is retained; else errors as of `prepare`."""
        context = self._prepare(workspace_id, funnel_id, query)
        if "\x00" in unit or not unit:
            raise _unknown_unit(context.definition)
        if context.definition.counting_unit is CountingUnit.ATTEMPT:
            traced, provenance = self._unit(context, unit, attempt_named(unit))
        else:
            visitors = self._runner.fetch_events(context, visitors_named(context.params, unit))
            selector = UnitSelector(tuple(row["unit"] for row in visitors.rows))
            traced, provenance = self._unit(context, unit, selector)
            provenance += visitors.provenance
        return self._trace_record(context, traced, provenance)

    def explain(
        self, workspace_id: WorkspaceId, funnel_id: str, query: ExplainQuery
    ) -> ExplainRecord:
        """NotFound when no such event is retained; Malformed when the sender's ID names several.

        Else errors as of `prepare`.
        """
        context = self._prepare(workspace_id, funnel_id, query)
        definition = context.definition
        statement = events_with_id(
            definition,
            context.params,
            context.profile,
            query.event_id,
            definition.read_properties,
        )
        result = self._runner.fetch_events(context, statement)
        event = _only_event(query.event_id, result.rows)
        if event["unit"] == 0:
            return _without_attempt(context, result.provenance, event)
        names = self._units.names(context, [event["unit"]], every_name=True)
        [name] = names.by_unit.values()
        by_attempt = definition.counting_unit is CountingUnit.ATTEMPT
        selector = attempt_named(name) if by_attempt else UnitSelector((event["unit"],))
        unit, provenance = self._unit(context, name, selector)
        if unit.truncated and event["event_id"] not in unit.decisions:
            raise _too_long()
        provenance += result.provenance
        if names.provenance is not None:
            provenance += names.provenance
        return _explain_record(context, provenance, event, unit)

    def _prepare(
        self, workspace_id: WorkspaceId, funnel_id: str, query: PeriodQuery
    ) -> QueryContext:
        # A trace follows one unit, whatever cohort it is in.
        selection = Selection(query.website_id, query.start_at, query.end_at)
        return self._runner.prepare(workspace_id, SavedFunnel(funnel_id, query.revision), selection)

    def _unit(
        self, context: QueryContext, name: str, selector: UnitSelector
    ) -> tuple[Unit, Provenance]:
        definition, params = context.definition, context.params
        by_attempt = definition.counting_unit is CountingUnit.ATTEMPT
        check = self._runner.deadline()
        events = self._events(context, selector)
        if not events.rows:
            raise _unknown_unit(definition)
        if not by_attempt and len({row["visitor"] for row in events.rows}) > 1:
            raise unfit_parameters(
                {
                    "websiteId": "This visitor ID belongs to different visitors on several "
                    "websites; send websiteId."
                }
            )
        provenance = events.provenance
        visitors: set[int] = set()
        if by_attempt and any(row["provider"] for row in events.rows):
            statement = visitors_of_attempt(definition, params, context.profile, selector)
            others = self._runner.fetch_events(context, statement)
            visitors = {row["visitor"] for row in others.rows}
            provenance += others.provenance
        unit = unit_of(
            definition,
            params,
            name,
            events.rows,
            visitors,
            matching_only=events.matching_only,
            truncated=events.truncated,
            check=check,
        )
        return unit, provenance

    def _events(self, context: QueryContext, selector: UnitSelector) -> _UnitEvents:
        """All of the unit's events; else those that match a row; else the first of these."""
        for matching in (False, True):
            statement = unit_events(
                context.definition,
                context.params,
                context.profile,
                selector,
                context.definition.read_properties,
                MAX_EVENTS + 1,
                matching=matching,
            )
            result = self._runner.fetch_events(context, statement)
            truncated = len(result.rows) > MAX_EVENTS
            if not truncated:
                break
        return _UnitEvents(result.rows[:MAX_EVENTS], result.provenance, matching, truncated)

    def _trace_record(
        self, context: QueryContext, unit: Unit, provenance: Provenance
    ) -> TraceRecord:
        definition, path = context.definition, unit.path
        by_visitor = replace(definition, counting_unit=CountingUnit.VISITOR, attempt_property=None)
        names = self._units.names(
            context, sorted({row["visitor"] for row in unit.rows}), by_visitor
        )
        if names.provenance is not None:
            provenance += names.provenance
        visitors = names.by_unit
        outcome = None
        if path is not None:
            outcome = outcome_of(
                definition, path.reached, path.window_end_ms, context.params.evaluated_at_ms
            )
        done = path is not None and path.reached == len(definition.steps)
        return TraceRecord.model_validate(
            {
                **head_of(context, provenance),
                "unit": unit.name
                if definition.attempt_property
                else next(iter(visitors.values()), unit.name),
                "selected": unit.selected,
                "summary": _summary(context, unit),
                "visitors": sorted(visitors.values()),
                "entryAt": iso(path.entry_ms) if path else None,
                "windowEndsAt": iso_or_none(path.window_end_ms) if path else None,
                "reached": path.reached if path else 0,
                "outcome": outcome,
                "completedAt": iso(path.completed[-1].at_ms) if path and done else None,
                "steps": _steps(path),
                "entryValues": _entry_values(definition, path) if path else {},
                "conflicts": _conflicts(definition, path) if path else [],
                "matchingOnly": unit.matching_only,
                "truncated": unit.truncated,
                "events": [
                    _event(definition, row, unit.decisions[row["event_id"]], visitors)
                    for row in unit.rows
                ],
            }
        )


def _only_event(event_id: str, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The event with an ID. Penstock's own ID comes before the sender's."""
    if not rows:
        raise NotFound(
            "No event with this ID is retained, or its time is in the future.",
            code="event_not_found",
        )
    if len(rows) > 1 and rows[0]["event_id"] != event_id:
        raise unfit_parameters(
            {
                "eventId": "Several events have this ID from their senders; send websiteId, "
                "or Penstock's own ID of the event."
            }
        )
    return rows[0]


def _explain_record(
    context: QueryContext, provenance: Provenance, event: Mapping[str, Any], unit: Unit
) -> ExplainRecord:
    explanation = unit.decisions.get(event["event_id"]) or Explanation(
        Decision.NO_MATCH, None, None, (), "Matches no row of the funnel."
    )
    counts = explanation.decision in _COUNTING or bool(explanation.diagnostic_rows)
    return ExplainRecord.model_validate(
        {
            **head_of(context, provenance),
            **_ids(event),
            "unit": unit.name,
            "counts": unit.selected and counts,
            "selected": unit.selected,
            "decision": explanation.decision,
            "step": explanation.step,
            "row": explanation.row,
            "explanation": explanation.sentence,
            "unitSummary": _summary(context, unit),
        }
    )


def _ids(event: Mapping[str, Any]) -> dict[str, str | None]:
    return {"eventId": event["event_id"], "clientEventId": event["client_event_id"] or None}


def _without_attempt(
    context: QueryContext, provenance: Provenance, event: Mapping[str, Any]
) -> ExplainRecord:
    attempt_property = context.definition.attempt_property
    return ExplainRecord.model_validate(
        {
            **head_of(context, provenance),
            **_ids(event),
            "unit": None,
            "counts": False,
            "selected": False,
            "decision": Decision.NO_MATCH,
            "step": None,
            "row": None,
            "explanation": "The event has no attempt ID: "
            f"{attempt_property} must be a non-empty text or an integer.",
            "unitSummary": None,
        }
    )


def unit_of(
    definition: Definition,
    params: QueryParams,
    name: str,
    rows: Sequence[Mapping[str, Any]],
    visitors: Collection[int],
    *,
    matching_only: bool = False,
    truncated: bool = False,
    check: Callable[[], None] = lambda: None,
) -> Unit:
    """A unit with the decision on each of its events.

    visitors: of the attempt's events that do not come from a payment provider (R18).
    matching_only, truncated: as of `Unit`. check: as of `chosen_path`.
    """
    in_order = sorted(
        ((_matched_event(definition, row), row) for row in rows), key=lambda pair: pair[0].order
    )
    outside = [row for row in rows if not _takes_part(definition, row, visitors)]
    outside_ids = {row["event_id"] for row in outside}
    events = [event for event, _ in in_order if event.event_id not in outside_ids]
    path = chosen_path(definition, events, params.start_ms, params.end_ms, check)
    selected = path is not None
    path = path or chosen_path(definition, events, None, None, check)
    decisions = explain_events(definition, path, events)
    decisions |= {row["event_id"]: left_out(verified=row["verified"]) for row in outside}
    in_order_rows = [row for _, row in in_order]
    return Unit(name, in_order_rows, path, selected, decisions, matching_only, truncated)


def _takes_part(definition: Definition, row: Mapping[str, Any], visitors: Collection[int]) -> bool:
    """Whether an event counts in its unit (R18). visitors: as of `unit_of`."""
    if definition.counting_unit is CountingUnit.VISITOR or not row["provider"]:
        return True
    return bool(row["verified"]) and (not visitors or row["visitor"] in visitors)


def _matched_event(definition: Definition, row: Mapping[str, Any]) -> MatchedEvent:
    """An event as the engine matched it."""
    matched, bits = [], row["mask"]
    for definition_row in definition.rows:
        matched.append(frozenset(at for at in range(len(definition_row.matches)) if bits >> at & 1))
        bits >>= len(definition_row.matches)
    texts = dict(zip(definition.read_properties, row["texts"], strict=True))
    values = tuple(
        MISSING if texts[name] == COMPOSITE else texts[name]
        for name in definition.breakdown_properties
    )
    number = None if row["seq"] == UNUSABLE else row["seq"]
    return MatchedEvent(
        row["event_id"], row["ts"], number, bool(row["invalid"]), tuple(matched), values
    )


def _event(
    definition: Definition,
    row: Mapping[str, Any],
    explanation: Explanation,
    visitors: Mapping[int, str],
) -> TracedEventRecord:
    event = _matched_event(definition, row)
    texts = zip(definition.read_properties, row["texts"], strict=True)
    return TracedEventRecord(
        event_id=row["event_id"],
        client_event_id=row["client_event_id"] or None,
        occurred_at=iso(row["ts"]),
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
    completed = path.completed if path else ()
    return [
        CompletedStepRecord(step=step, event_id=event.event_id, at=iso(event.at_ms))
        for step, event in enumerate(completed, start=1)
    ]


def _entry_values(definition: Definition, path: FunnelPath) -> dict[str, EntryValueRecord]:
    values = {}
    for place, name in enumerate(definition.breakdown_properties):
        sources = list(path.candidates) if path.tied else [path.entry]
        source_values = {event.values[place] for event in sources}
        how = (
            "missing"
            if source_values == {MISSING}
            else "entryEvent"
            if not path.tied
            else "agreed"
            if len(source_values) == 1
            else "disagreed"
        )
        values[name] = EntryValueRecord.model_validate(
            {
                "value": untagged(path.values[place]),
                "how": how,
                "eventIds": [event.event_id for event in sources],
            }
        )
    return values


def _conflicts(definition: Definition, path: FunnelPath) -> list[ConflictRecord]:
    return [
        ConflictRecord(
            property=name,
            entry_value=untagged(path.values[place]),
            value=untagged(event.values[place]),
            event_id=event.event_id,
            occurred_at=iso(event.at_ms),
        )
        for place, name in enumerate(definition.breakdown_properties)
        for event in conflicts(definition, path, place)
    ]


def _summary(context: QueryContext, unit: Unit) -> str:
    """The outcome of the unit, in a few sentences."""
    outcome = _outcome(context, unit)
    if not unit.truncated:
        return outcome
    return (
        f"{outcome} Only its first {MAX_EVENTS:,} events that match the funnel were read; "
        f"a report reads up to {MAX_UNIT_EVENTS:,}."
    )


def _outcome(context: QueryContext, unit: Unit) -> str:
    definition, params, path = context.definition, context.params, unit.path
    kind = "attempt" if definition.counting_unit is CountingUnit.ATTEMPT else "visitor"
    if path is None:
        return f"The {kind} never completed step 1, so it is not in the report."
    n, reached = len(definition.steps), path.reached
    entry = f"Entered at {iso(path.entry_ms)}"
    if reached == n:
        outcome = f"and completed all {n} steps at {iso(path.completed[-1].at_ms)}."
    elif path.window_end_ms is None:
        outcome = f"and reached step {reached} of {n}; the window never ends, so it may complete."
    elif path.is_open(params.evaluated_at_ms):
        end = iso(path.window_end_ms)
        outcome = f"and reached step {reached} of {n} so far; the window is open until {end}."
    else:
        end = iso(path.window_end_ms)
        outcome = f"and reached step {reached} of {n}; the window ended at {end}."
    in_report = unit.selected or in_period(path.entry_ms, params.start_ms, params.end_ms)
    return f"{entry} {outcome}{'' if in_report else ' The entry is outside the period.'}"


def _too_long() -> Invalid:
    message = (
        f"The event is not among the first {MAX_EVENTS:,} of its unit that match the funnel, "
        "the limit of a trace."
    )
    return Invalid([Fault("eventId", "trace_too_long", message)])


def _unknown_unit(definition: Definition) -> NotFound:
    kind = "attempt" if definition.counting_unit is CountingUnit.ATTEMPT else "visitor"
    return NotFound(
        f"No event of this {kind} is retained. Check the ID (/units lists them) and websiteId.",
        code="unit_not_found",
    )
