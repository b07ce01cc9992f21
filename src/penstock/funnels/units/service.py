"""The units behind a number of a report: lists of counted units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple

from msgspec import DecodeError, json

from penstock.base.clock import iso, iso_or_none
from penstock.base.cursors import decode_cursor, encode_cursor
from penstock.base.errors import Fault
from penstock.base.scalar import Scalar, untagged
from penstock.funnels.definitions.model import CountingUnit, Definition
from penstock.funnels.other_tools.service import (
    Group,
    comparison_of,
    differing_units,
    unit_there,
)
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.parameters import unfit_parameters
from penstock.funnels.queries.provenance import Provenance, head_of
from penstock.funnels.queries.schema import ServedFrom
from penstock.funnels.statements.drivers import EventCondition
from penstock.funnels.statements.matching import KINDS_BY_TYPE
from penstock.funnels.statements.one_unit import unit_names
from penstock.funnels.statements.units import (
    Outcome,
    Position,
    Quality,
    UnitConditions,
    UnitOrder,
    last_activity,
    units_page,
)
from penstock.funnels.units.after_step import events_after_step
from penstock.funnels.units.attempt_names import attempt_name
from penstock.funnels.units.run_names import run_name
from penstock.funnels.units.schema import (
    UnitListQuery,
    UnitRecord,
    UnitsQuery,
    UnitsRecord,
    only_step,
)
from penstock.metadb.person import PersonName, StoredVisitor

_WITH_PROPERTY = (Quality.UNKNOWN_ENTRY_VALUE, Quality.CONFLICT)


@dataclass(frozen=True, slots=True)
class UnitNames:
    """The names of units by their key, and their provenance; None if no statement was needed.

    visitors: the visitor of each unit; for an attempt, that of its entry.
    """

    by_unit: Mapping[int, str]
    visitors: Mapping[int, StoredVisitor]
    provenance: Provenance | None


@dataclass(frozen=True, slots=True)
class UnitDetails:
    """Names of units, their people and the times of their last events by key, and their provenance
    if there are units.
    """

    names: Mapping[int, str]
    people: Mapping[int, PersonName]
    last_ms: Mapping[int, int]
    provenance: Provenance | None


def list_units(runner: FunnelQueryRunner, context: QueryContext, query: UnitsQuery) -> UnitsRecord:
    """Returns the attempts or visitors that a report counts, newest entry first by default."""
    fingerprint = _query_fingerprint(context, query)
    after = None
    if query.cursor is not None:
        evaluated_at_ms, after = _position(query.cursor, fingerprint, runner.now_ms())
        # All pages have the evaluation time of the first, so no unit changes its outcome.
        context = context.with_params(evaluated_at_ms=evaluated_at_ms)
    differing = differing_units(runner, context, query)
    conditions = unit_conditions(runner, context, query, differing)
    limit = query.page_size + 1
    result = runner.fetch(
        context,
        lambda profile: units_page(
            context.counted(profile), conditions, unit_order(query), after, limit
        ),
    )
    rows = result.rows[: query.page_size]
    details = read_details(runner, context, rows)
    provenance = result.provenance
    if provenance.served_from is not ServedFrom.OUTCOMES:
        provenance += details.provenance
    has_more = len(result.rows) > len(rows)
    return UnitsRecord(
        **head_of(context, provenance),
        total=result.rows[0]["total"] if result.rows else 0,
        next_cursor=_cursor(context, fingerprint, rows[-1]) if has_more else None,
        data=[
            with_there(unit_record(context, row, details), context, query, differing, row["unit"])
            for row in rows
        ],
    )


def with_there(
    record: UnitRecord,
    context: QueryContext,
    query: UnitsQuery,
    differing: Mapping[int, Group] | None,
    unit: int,
) -> UnitRecord:
    """Return the record of a unit with its result by the rules of the tool that a query names."""
    comparison = comparison_of(context, query)
    if comparison is None or differing is None:
        return record
    return record.model_copy(update={"there": unit_there(comparison, differing[unit])})


def read_details(
    runner: FunnelQueryRunner, context: QueryContext, rows: Sequence[Mapping[str, Any]]
) -> UnitDetails:
    """Return what a list shows of units in addition to the rows of `units_page`."""
    if not rows:
        return UnitDetails({}, {}, {}, None)
    names = names_of(runner, context, rows)
    definition, owner = context.definition, "unit"
    if definition.repeat:  # A run has the events of its visitor.
        definition, owner = by_visitor(definition), "visitor"
    keys = sorted({row[owner] for row in rows})
    active = runner.fetch_events(
        context, last_activity(definition, context.params, context.profile, keys)
    )
    provenance = active.provenance
    provenance += names.provenance
    last_ms = {row["unit"]: row["last_ts"] for row in active.rows}
    return UnitDetails(
        names.by_unit,
        people_of(runner, context, names),
        {row["unit"]: last_ms[row[owner]] for row in rows if row[owner] in last_ms},
        provenance,
    )


def people_of(
    runner: FunnelQueryRunner, context: QueryContext, names: UnitNames
) -> dict[int, PersonName]:
    """Return the people behind units, by the unit's key."""
    people = runner.people(context, set(names.visitors.values()))
    return {unit: people[own] for unit, own in names.visitors.items() if own in people}


def names_of(
    runner: FunnelQueryRunner, context: QueryContext, rows: Sequence[Mapping[str, Any]]
) -> UnitNames:
    """Return the names of counted units.

    rows: their unit and entry_ts; for runs, also visitor and entry_id.
    """
    if not context.definition.repeat:
        entries_ms = [row["entry_ts"] for row in rows]
        return read_names(runner, context, [row["unit"] for row in rows], entries_ms=entries_ms)
    keys = sorted({row["visitor"] for row in rows})
    visitors = read_names(runner, context, keys, by_visitor(context.definition))
    runs = {
        row["unit"]: run_name(visitors.by_unit.get(row["visitor"], ""), row["entry_id"])
        for row in rows
    }
    owners = {
        row["unit"]: visitors.visitors[row["visitor"]]
        for row in rows
        if row["visitor"] in visitors.visitors
    }
    return UnitNames(runs, owners, visitors.provenance)


def read_names(
    runner: FunnelQueryRunner,
    context: QueryContext,
    units: Sequence[int],
    definition: Definition | None = None,
    *,
    every_name: bool = False,
    entries_ms: Sequence[int] | None = None,
) -> UnitNames:
    """Return the names of units.

    definition: the definition whose units these are, if it counts units differently from the
    query. every_name: include units that match no row. entries_ms: the times at which the units
    entered, if known.
    """
    if not units:
        return UnitNames({}, {}, None)
    definition = definition or context.definition
    statement = unit_names(
        definition,
        context.params,
        context.profile,
        units,
        every_name=every_name,
        entries_ms=entries_ms,
    )
    result = runner.fetch_events(context, statement)
    if not definition.attempt_keys:
        return UnitNames(
            {row["unit"]: row["name"] for row in result.rows},
            {row["unit"]: (row["scope"], row["name"]) for row in result.rows},
            result.provenance,
        )
    provenance = result.provenance
    visitors = UnitNames({}, {}, None)
    if definition.has_one_visitor:
        keys = sorted({row["visitor"] for row in result.rows})
        visitors = read_names(runner, context, keys, by_visitor(definition), every_name=True)
    provenance += visitors.provenance
    return UnitNames(
        {row["unit"]: attempt_name(definition, row, visitors.by_unit) for row in result.rows},
        {row["unit"]: (row["scope"], row["sent_by"]) for row in result.rows if row["sent_by"]},
        provenance,
    )


def by_visitor(definition: Definition) -> Definition:
    """Return the definition, but with visitors as units."""
    return replace(definition, counting_unit=CountingUnit.VISITOR, attempt_keys=(), repeat=False)


def _check_conditions(definition: Definition, query: UnitListQuery) -> None:
    """Check the conditions of a query. Raises Malformed with all parameters that don't fit."""
    steps, diagnostics = definition.steps, _diagnostic_rows(definition)
    faults: dict[str, str] = {}
    others: list[Fault] = []
    step = only_step(query)
    if max(query.step or (1,)) > len(steps):
        faults["step"] = f"This funnel has {len(steps)} steps."
    if query.option is not None and step is None:
        faults["option"] = "Send one step as well: options belong to a step."
    elif query.option is not None and step is not None and "step" not in faults:
        options = len(steps[step - 1].matches)
        if query.option >= options:
            faults["option"] = f"Step {step} has {options} options, numbered from 0."
    if query.diagnostic is not None and query.diagnostic not in diagnostics:
        known = ", ".join(map(str, diagnostics)) or "none"
        faults["diagnostic"] = f"This is not a diagnostic row; the funnel has: {known}."
    if query.property is not None and query.quality not in _WITH_PROPERTY:
        faults["property"] = f"Send it with quality {' or '.join(_WITH_PROPERTY)}."
    elif query.property is not None and query.property not in definition.breakdown_properties:
        others.append(definition.breakdown_fault("property"))
    faults |= _event_faults(query, len(steps))
    if faults or others:
        raise unfit_parameters(faults, *others)


def _event_faults(query: UnitListQuery, n: int) -> dict[str, str]:
    """Return a message for each parameter about an event that does not fit. n: number of steps."""
    if query.event_name is None:
        unused = {"eventType": query.event_type is not None, "hasEvent": not query.has_event}
        return {name: "Send eventName as well." for name, is_sent in unused.items() if is_sent}
    faults = {}
    if query.event_type is None:
        faults["eventType"] = "Send the type of the event as well."
    if only_step(query) is None:
        faults["step"] = "Send the one step after which the event happened."
    elif only_step(query) == n:
        faults["step"] = f"Must be less than {n}: no step comes after the last one."
    return faults


def _diagnostic_rows(definition: Definition) -> list[int]:
    return [index for index, row in enumerate(definition.rows) if row.diagnostic]


def unit_conditions(
    runner: FunnelQueryRunner,
    context: QueryContext,
    query: UnitListQuery,
    differing: Mapping[int, Group] | None = None,
) -> UnitConditions:
    """Return a query's conditions.

    differing: the units that `differing_units` returns, if they are known.

    Raises Malformed with all parameters that don't fit and, for an event, the same errors as
    `FunnelQueryRunner.fetch`.
    """
    definition, event = context.definition, None
    _check_conditions(definition, query)
    step = only_step(query)
    if differing is None:
        differing = differing_units(runner, context, query)
    if step is not None and query.event_name is not None and query.event_type is not None:
        event = EventCondition(
            events_after_step(runner, context, step, query.of),
            KINDS_BY_TYPE[query.event_type],
            query.event_name,
            query.has_event,
        )
    return UnitConditions(
        steps=query.step or (),
        outcomes=query.outcome or (),
        option=query.option,
        diagnostic=None
        if query.diagnostic is None
        else _diagnostic_rows(definition).index(query.diagnostic) + 1,
        quality=query.quality,
        property=0
        if query.property is None
        else definition.breakdown_properties.index(query.property) + 1,
        event=event,
        units=None if differing is None else sorted(differing),
        absent=sorted(unit for unit, group in (differing or {}).items() if not group.here)
        if definition.counting_unit is CountingUnit.ATTEMPT
        else (),
    )


def unit_order(query: UnitListQuery) -> UnitOrder:
    return UnitOrder(query.sort, query.order == "desc")


def outcome_of(
    definition: Definition,
    reached: int,
    window_end_ms: int | None,
    evaluated_at_ms: int,
    *,
    is_excluded: bool,
) -> Outcome:
    """Return the outcome of a unit.

    window_end_ms: last millisecond of the window; None if the window has no end.
    """
    if is_excluded:
        return Outcome.EXCLUDED
    if reached == len(definition.steps):
        return Outcome.COMPLETED
    return (
        Outcome.PENDING
        if window_end_ms is None or evaluated_at_ms <= window_end_ms
        else Outcome.DROPPED_OFF
    )


class UnitState(NamedTuple):
    """The outcome of a unit, the last millisecond of its window, and the time of its exclusion."""

    outcome: Outcome
    window_end_ms: int | None
    excluded_ms: int | None


def read_state(context: QueryContext, row: Mapping[str, Any]) -> UnitState:
    """Return the state of a unit. row: a row of `units_page` or `all_units`."""
    definition = context.definition
    window_end_ms = None if definition.window_s is None else row["window_end"]
    is_excluded = row["excluded_after"] >= 0
    outcome = outcome_of(
        definition,
        row["reached"],
        window_end_ms,
        context.params.evaluated_at_ms,
        is_excluded=is_excluded,
    )
    excluded_ms = row["entry_ts"] + row["excluded_after"] if is_excluded else None
    return UnitState(outcome, window_end_ms, excluded_ms)


def entry_values(definition: Definition, row: Mapping[str, Any]) -> dict[str, Scalar | None]:
    """Return a unit's value of each breakdown property. row: see `read_state`."""
    return dict(zip(definition.breakdown_properties, map(untagged, row["texts"]), strict=True))


def unit_record(context: QueryContext, row: Mapping[str, Any], details: UnitDetails) -> UnitRecord:
    """Return the record of a unit. row: a row of `units_page`."""
    state = read_state(context, row)
    is_complete = state.outcome is Outcome.COMPLETED
    person = details.people.get(row["unit"])
    return UnitRecord.model_validate(
        {
            "unit": details.names.get(row["unit"], ""),
            "userId": person and person.user_id,
            "person": person and person.name,
            "entryAt": iso(row["entry_ts"]),
            "windowEndsAt": iso_or_none(state.window_end_ms),
            "reached": row["reached"],
            "outcome": state.outcome,
            "completedAt": iso(row["done_ts"]) if is_complete else None,
            "excludedAt": iso_or_none(state.excluded_ms),
            "lastActivityAt": iso_or_none(details.last_ms.get(row["unit"])),
            "cohort": entry_values(context.definition, row),
            "sequenceSkips": row["skips"],
            "unorderedTies": row["ties"],
            "assumedOrder": row["assumed"],
            "invalidSequenceValues": row["invalid"],
            "tiedEntry": bool(row["tied"]),
            "conflictingEntryValues": [
                name
                for index, name in enumerate(context.definition.breakdown_properties)
                if row["conflicts"] >> index & 1
            ],
            "severalVisitors": bool(row["several"]),
            "coarseTimes": row["coarse"],
        }
    )


def _query_fingerprint(context: QueryContext, query: UnitsQuery) -> int:
    """Return a hash of the query without its page. A cursor is valid only for the same query."""
    text = query.model_dump_json(exclude={"cursor", "page_size"})
    return int.from_bytes(
        blake2b(f"{context.funnel_id} {text}".encode(), digest_size=4).digest(), "big"
    )


def _cursor(context: QueryContext, fingerprint: int, last_row: Mapping[str, Any]) -> str:
    position = [
        fingerprint,
        context.params.evaluated_at_ms,
        last_row["sorted_by"],
        last_row["unit"],
    ]
    return encode_cursor(json.encode(position))


def _position(cursor: str, fingerprint: int, now_ms: int) -> tuple[int, Position]:
    """Return the time at which the first page was evaluated, and where this page starts."""
    try:
        sent, evaluated_at_ms, at_ms, unit = json.decode(
            decode_cursor(cursor), type=tuple[int, int, int, int]
        )
    except (ValueError, DecodeError):
        sent = evaluated_at_ms = at_ms = unit = -1
    is_valid = 0 <= evaluated_at_ms <= now_ms and -1 <= at_ms < 2**63 and 0 <= unit < 2**64
    if sent != fingerprint or not is_valid:
        raise unfit_parameters(
            {
                "cursor": "Send nextCursor of the previous page unchanged, with the same other "
                "parameters."
            }
        )
    return evaluated_at_ms, Position(at_ms, unit)
