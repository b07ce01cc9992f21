"""Traces of single units, and explanations of why a stored event counts or not."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from penstock.base.errors import NotFound
from penstock.base.ids import WorkspaceId
from penstock.funnels.definitions.model import CountingUnit, Definition
from penstock.funnels.other_tools.rules import Comparison, rules_of
from penstock.funnels.other_tools.schema import LikeQuery
from penstock.funnels.other_tools.service import (
    Group,
    compare_units,
    comparison_of,
    unit_there,
)
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.parameters import unfit_parameters
from penstock.funnels.queries.provenance import Provenance
from penstock.funnels.queries.schema import AdHocQuery
from penstock.funnels.statements.one_unit import (
    UnitSelector,
    events_with_id,
    unit_events,
    visitors_named,
    visitors_of_attempt,
)
from penstock.funnels.statements.other_tools import Rules
from penstock.funnels.units.attempt_names import read_attempt_name
from penstock.funnels.units.explanation import Explanation
from penstock.funnels.units.other_tools import explain_greedy, rows_by_rules
from penstock.funnels.units.path import Decision
from penstock.funnels.units.run_names import read_run_name
from penstock.funnels.units.schema import (
    DecisionThereRecord,
    ExplainQuery,
    ExplainRecord,
    TracedThereRecord,
    TraceRecord,
)
from penstock.funnels.units.service import by_visitor, people_of, read_names
from penstock.funnels.units.trace import run_of
from penstock.funnels.units.trace_records import (
    explain_record,
    record_without_attempt,
    trace_record,
)
from penstock.funnels.units.traced_unit import (
    ChooseRun,
    Unit,
    choose_run,
    matched_event,
    trace_unit,
)

MAX_EVENTS = 5_000


class _UnitEvents(NamedTuple):
    """Events of a unit. matching_only, truncated: see `Unit`."""

    rows: Sequence[Mapping[str, Any]]
    provenance: Provenance
    matching_only: bool
    truncated: bool


def trace_of(
    runner: FunnelQueryRunner,
    workspace_id: WorkspaceId,
    funnel_id: str,
    query: AdHocQuery,
    unit: str,
    *,
    names_by_trait: bool = True,
) -> TraceRecord:
    """Return the trace of a unit.

    names_by_trait: see `QueryContext`.

    Raises NotFound if none of its events is retained, and the same errors as
    `FunnelQueryRunner.prepare`.
    """
    context = runner.prepare_saved(workspace_id, funnel_id, query, names_by_trait=names_by_trait)
    if "\x00" in unit or not unit:
        raise _unknown_unit(context.definition)
    entry_id = None
    if context.definition.repeat:
        unit, entry_id = read_run_name(unit)
    reader, choose = _UnitReader(runner, context), partial(choose_run, entry_id=entry_id)
    traced, provenance = reader.unit(unit, reader.selector(unit), choose)
    if entry_id is not None and traced.path is None:
        raise _unknown_run(traced)
    visitors = sorted({row["visitor"] for row in traced.rows})
    names = read_names(runner, context, visitors, by_visitor(context.definition))
    provenance += names.provenance
    people = people_of(runner, context, names)
    record = trace_record(context, provenance, traced, names.by_unit, people)
    comparison = comparison_of(context, query) if isinstance(query, LikeQuery) else None
    if comparison is None:
        return record
    if context.definition.repeat:
        message = "A run cannot be traced by the rules of another tool. Leave out countLike."
        raise unfit_parameters({"countLike": message})
    groups = compare_units(runner, context, comparison, [traced.rows[0]["unit"]])
    group = next(groups, Group(0, 0, 0, 1, [], None))
    there = trace_there(runner, context, comparison, group, traced, reader.selector(unit))
    return record.model_copy(update={"there": there})


def trace_there(
    runner: FunnelQueryRunner,
    context: QueryContext,
    comparison: Comparison,
    group: Group,
    traced: Unit,
    selector: UnitSelector,
) -> TracedThereRecord:
    """Return a unit and the decisions on its events by the rules of another tool."""
    decisions: dict[str, Explanation] | None = None
    rules = rules_of(comparison, comparison.switches)
    is_unknown = rules is None or rules.by_tries or rules.with_step_1
    if rules is None or is_unknown or (rules.greedy and rules.definition.excludes):
        decisions = None
    elif rules.greedy is not None and rules.greedy.within_ms is not None:
        events = [
            matched_event(context.definition, row)
            for row in traced.rows
            if traced.decisions[row["event_id"]].decision is not Decision.UNVERIFIED_PROVIDER
        ]
        decisions = {**traced.decisions, **explain_greedy(rules, events)}
    elif rules.modes is None:
        other = replace(context, definition=rules.definition, params=rules.params)
        there, _ = _UnitReader(runner, other).unit(traced.name, selector, choose_run, rules=rules)
        decisions = dict(there.decisions)
    return TracedThereRecord(
        **dict(unit_there(comparison, group)),
        events=None
        if decisions is None
        else [
            DecisionThereRecord(
                event_id=row["event_id"],
                decision=decisions[row["event_id"]].decision,
                step=decisions[row["event_id"]].step,
                explanation=decisions[row["event_id"]].sentence,
            )
            for row in traced.rows
            if row["event_id"] in decisions
        ],
    )


def explain_event(
    runner: FunnelQueryRunner, context: QueryContext, query: ExplainQuery
) -> ExplainRecord:
    """Returns one stored event: its unit, whether it counts, and why."""
    definition, reader = context.definition, _UnitReader(runner, context)
    statement = events_with_id(
        definition, context.params, context.profile, query.event_id, definition.read_properties
    )
    result = runner.fetch_events(context, statement)
    event = _only_event(query.event_id, result.rows)
    if event["unit"] == 0:
        return record_without_attempt(context, result.provenance, event)
    names = read_names(runner, context, [event["unit"]], every_name=True)
    [name] = names.by_unit.values()
    by_attempt = definition.counting_unit is CountingUnit.ATTEMPT
    selector = reader.selector(name) if by_attempt else UnitSelector((event["unit"],))
    choose = partial(run_of, event=matched_event(definition, event))
    unit, provenance = reader.unit(name, selector, choose, also=event)
    provenance += result.provenance
    provenance += names.provenance
    return explain_record(context, provenance, event, unit)


class _UnitReader:
    """Reads and traces units of a prepared query."""

    def __init__(self, runner: FunnelQueryRunner, context: QueryContext) -> None:
        self._runner, self._context = runner, context

    def selector(self, unit: str) -> UnitSelector:
        """Return the selector of a unit. Raises NotFound if it cannot be the name of a unit."""
        definition = self._context.definition
        if definition.counting_unit is CountingUnit.VISITOR:
            return UnitSelector(self._visitors(unit))
        attempt = read_attempt_name(definition, unit)
        if attempt is None:
            raise _unknown_unit(definition)
        visitors = [set(self._visitors(sent_id)) for sent_id in attempt.visitor_ids]
        return UnitSelector(
            tuple(set.intersection(*visitors)) if visitors else None,
            attempt.texts,
            attempt.session,
        )

    def _visitors(self, visitor_id: str) -> tuple[int, ...]:
        """Return the canonical visitors that an ID may stand for, by identity scope."""
        statement = visitors_named(self._context.params, visitor_id)
        result = self._runner.fetch_events(self._context, statement)
        return tuple(row["unit"] for row in result.rows)

    def unit(
        self,
        name: str,
        selector: UnitSelector,
        choose: ChooseRun,
        also: Mapping[str, Any] | None = None,
        rules: Rules | None = None,
    ) -> tuple[Unit, Provenance]:
        """Read and trace a unit.

        Raises NotFound if it has no events, and Malformed if several visitors have this visitor ID.
        choose: chooses among the runs of a visitor, if every run counts. also: an event of the unit
        that needs a decision even if the limit leaves it out. rules: of another tool.
        """
        context = self._context
        definition, params = context.definition, context.params
        by_attempt = bool(definition.attempt_keys)
        check = self._runner.deadline()
        events = self._events(selector)
        if not events.rows:
            raise _unknown_unit(definition)
        if definition.has_one_visitor and len({row["visitor"] for row in events.rows}) > 1:
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
        unit = trace_unit(
            definition,
            params,
            name,
            events.rows if rules is None else rows_by_rules(rules, events.rows),
            visitors,
            choose=choose,
            matching_only=events.matching_only,
            truncated=events.truncated,
            also=also if also is not None and also["mask"] and events.truncated else None,
            check=check,
        )
        return unit, provenance

    def _events(self, selector: UnitSelector) -> _UnitEvents:
        """Read all events of the unit, or the first matching events if there are too many."""
        context = self._context
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


def _only_event(event_id: str, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the event with the given ID. Penstock's ID takes precedence over the sender's."""
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


def _unknown_run(visitor: Unit) -> NotFound:
    message = "No run of this visitor began with this event. /units lists the runs."
    if visitor.truncated:
        message += (
            f" Only the first {MAX_EVENTS:,} events of a visitor that match the funnel are traced."
        )
    return NotFound(message, code="unit_not_found")


def _unknown_unit(definition: Definition) -> NotFound:
    kind = "attempt" if definition.counting_unit is CountingUnit.ATTEMPT else "visitor"
    return NotFound(
        f"No event of this {kind} is retained. Check the ID (/units lists them) and websiteId.",
        code="unit_not_found",
    )
