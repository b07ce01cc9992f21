"""Turns stored definitions into definitions that can be evaluated."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from penstock.base.errors import Conflict, Fault
from penstock.funnels.definitions.builtins import COHORT, cohort_of
from penstock.funnels.definitions.cost import cost_fault, row_costs
from penstock.funnels.definitions.matches import resolve_match
from penstock.funnels.definitions.model import ENTRY, Definition, GoalUse, Match, Row
from penstock.funnels.definitions.schema import (
    GOAL,
    GoalRecord,
    SavedDefinition,
    SavedMatch,
    SavedStep,
)
from penstock.http.schema import RulesBroken, join_path


def goal_names(definition: SavedDefinition) -> frozenset[str]:
    """Return the names of the goals that a definition uses."""
    return frozenset(
        match.value
        for step in definition.steps
        for match in (step, *step.or_)
        if match.type == GOAL
    )


def cohorts_named(definition: SavedDefinition) -> dict[str, str]:
    """Return the IDs of the saved cohorts that a definition names, by the field that names them."""
    filters = {
        f"steps[{index}]{at}.filters[{position}].value": item
        for index, step in enumerate(definition.steps)
        for at, match in (("", step), *((f".or[{i}]", row) for i, row in enumerate(step.or_)))
        for position, item in enumerate(match.filters)
    }
    named = {field: item.value for field, item in filters.items() if item.property == COHORT}
    breakdowns = enumerate(map(cohort_of, definition.breakdown_properties))
    return named | {
        f"breakdownProperties[{index}]": cohort_id
        for index, cohort_id in breakdowns
        if cohort_id is not None
    }


def resolve(
    definition: SavedDefinition,
    goals: Mapping[str, GoalRecord],
    check_regex: Callable[[str], None],
) -> Definition:
    """Replace goals by their matches and parse all filters.

    goals: current goals by name, including all that the definition uses.

    Raises Conflict if part of the definition or of a goal cannot be read, naming each such part, or
    if the filters cost too much, for example after a goal changed.
    """
    matches = {name: goal.match for name, goal in goals.items()}
    too_costly = cost_fault(row_costs(definition.steps, matches), "steps")
    if too_costly is not None:
        raise Conflict(too_costly.message, code="definition_too_costly", faults=[too_costly])
    used = [goals[name] for name in sorted(goal_names(definition))]
    rows, faults = [], []
    for index, step in enumerate(definition.steps):
        try:
            rows.append(_row(step, matches, check_regex))
        except RulesBroken as error:
            faults += [
                replace(fault, field=f"steps[{index}].{fault.field}") for fault in error.faults
            ]
    if faults:
        more = f" (and {len(faults) - 1} more, see errors)" if len(faults) > 1 else ""
        raise Conflict(
            "Penstock cannot read the saved definition. Correct it and save it again. "
            f"{faults[0].field}{more}: {faults[0].message}",
            code="definition_not_readable",
            faults=faults,
        )
    return Definition(
        rows=tuple(rows),
        counting_unit=definition.counting_unit,
        window_s=definition.window_s,
        in_step_order=definition.equal_times is not None,
        repeat=definition.repeat,
        in_any_order=definition.order is not None,
        breakdown_at=definition.breakdown_at or ENTRY,
        attempt_keys=definition.attempt_keys,
        sequence_property=definition.sequence_property,
        breakdown_properties=tuple(definition.breakdown_properties),
        goals=tuple(GoalUse(goal.name, goal.id, goal.revision) for goal in used),
    )


def _row(
    step: SavedStep, goals: Mapping[str, SavedMatch], check_regex: Callable[[str], None]
) -> Row:
    """Convert a step. Raises RulesBroken with all faults of the step."""
    matches: list[Match] = []
    faults: list[Fault] = []
    for index, match in enumerate((step, *step.or_)):
        try:
            matches.append(resolve_match(match, goals, check_regex))
        except RulesBroken as error:
            at = f"or[{index - 1}]" if index else ""
            faults += [replace(fault, field=join_path(at, fault.field)) for fault in error.faults]
    if faults:
        raise RulesBroken(faults)
    return Row(
        tuple(matches),
        all_of=step.mode is not None,
        diagnostic=step.diagnostic,
        exclude=step.exclude,
        strict=bool(step.strict),
        strict_all=step.strict == "all",
        saved_as=(step.type, step.value),
        name=step.name,
    )
