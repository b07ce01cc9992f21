"""The events that a statement reads, as SQL over the table `events`.

Source: funnel semantics, "Matching", "Units" and "Order".
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

from penstock.base.scalar import BIG_INTEGER, COMPOSITE, INTEGER
from penstock.funnels.definitions.builtins import FIRST_TIME
from penstock.funnels.statements.binder import Binder
from penstock.funnels.statements.equal_times import reads_texts
from penstock.funnels.statements.matching import (
    KINDS,
    filter_condition,
    is_whole_second,
    match_condition,
    property_hash,
    property_sent,
    property_text,
)
from penstock.funnels.statements.query import LARGEST_NUMBER, UNUSABLE, Plan
from penstock.funnels.statements.sources import event_scope, is_sent, joined_events, visitor_key
from penstock.funnels.statements.unit_keys import attempt_parts, unit_of_parts


def matched_events(
    plan: Plan, *, matching: bool = True, more: Mapping[str, str] | None = None, where: str = "1"
) -> str:
    """Return the events that can affect a unit, with every column that the folds need.

    They are those that match a row, unless the plan reads all events. matching: whether to leave
    out the others. more: extra columns by name. where: an
    additional condition on `events`.
    """
    definition, binder = plan.definition, plan.binder
    if matching:
        names = "1" if plan.any_event else name_scope(plan)
        where += f" AND {names} AND mask != 0"
    units = ["1"]
    if plan.subset.units is not None:
        units.append(f"unit IN {binder.bind('Array(UInt64)', list(plan.subset.units))}")
    if plan.subset.share is not None:
        units.append(in_share(binder, plan.subset.share))
    breakdowns = enumerate(definition.breakdown_properties, start=1)
    read = {
        **(more or {}),
        "ts": _time(plan),
        "event_id": "events.event_id",
        "mask": _mask(plan),
        "visitor": visitor_key(plan),
        "provider": "events.source = 'provider'",
        "verified": "events.verified",
        "coarse": is_whole_second(binder) if plan.has_whole_seconds else "toUInt8(0)",
        **{f"key_{j}": property_hash(name, binder) for j, name in breakdowns},
        **_texts(plan),
        **_number_columns(plan),
        **_entry_columns(plan),
    }
    parts = {f"attempt_{j}": part for j, part in enumerate(attempt_parts(plan), start=1)}
    unit = unit_of_parts(plan, list(parts)) if parts else "visitor"
    selected = (parts | read).items()
    columns = ",\n           ".join(f"{column} AS {name}" for name, column in selected)
    passes = ", NOT has(met, 0) AS passes" if plan.has_entry_filters else ""
    # Two nested queries, because the engine analyses a copy of an expression wherever it is used.
    return f"""
    SELECT {", ".join(read)}, {unit} AS unit, {_sequence(plan)} AS seq,
           seq = {UNUSABLE} AND number_sent AS invalid{passes}
    FROM (
    SELECT {columns}
    FROM {joined_events(plan)}
    WHERE {event_scope(plan)} AND {where})
    WHERE {" AND ".join(units)}"""


def _time(plan: Plan) -> str:
    at_ms = "toInt64(toUnixTimestamp64Milli(events.occurred_at))"
    return at_ms if plan.tick_ms == 1 else f"intDiv({at_ms}, {plan.tick_ms}) * {plan.tick_ms}"


def _mask(plan: Plan) -> str:
    """Return a mask with a bit for each match that an event satisfies.

    Matches without filters or patterns are looked up by name, which the engine does once per name.
    """
    by_kind: dict[str, dict[str, int]] = {}
    parts = []
    if plan.any_event:
        parts.append(f"if({is_sent()}, {plan.mask(plan.any_event)}, {plan.mask(0)})")
    for row in plan.rows:
        for match, bit in zip(row.row.matches, row.each, strict=True):
            if match.filters or match.is_pattern:
                condition = match_condition(match, plan)
                parts.append(f"if({condition}, {plan.mask(bit)}, {plan.mask(0)})")
            else:
                names = by_kind.setdefault(KINDS[match.type], {})
                names[match.value] = names.get(match.value, 0) | bit
    for kind, names in by_kind.items():
        known, masks = plan.binder.bind("Array(String)", list(names)), list(names.values())
        mask = f"transform(events.name, {known}, {plan.masks(masks)}, {plan.mask(0)})"
        if plan.mask_type != "UInt64":  # `transform` does not support wider types.
            position = f"transform(events.name, {known}, range(1, {len(names) + 1}), 0) + 1"
            mask = f"{plan.masks([0, *masks])}[{position}]"
        parts.append(f"if(events.kind = '{kind}', {mask}, {plan.mask(0)})")
    return reduce(lambda left, right: f"bitOr({left}, {right})", parts)


def _number_columns(plan: Plan) -> dict[str, str]:
    """Return the columns from which `_sequence` reads a sequence number.

    number: hash of the property, 0 if it is missing. number_sent: whether it has a value, usable or
    not. big: the property's text as a number.
    """
    name = plan.definition.sequence_property
    if name is None:
        return {"number": "toUInt64(0)", "number_sent": "toUInt8(0)"}
    return {
        "number": property_hash(name, plan.binder),
        "number_sent": property_sent(name, plan.binder),
        "big": f"toUInt64OrNull(substring({property_text(name, plan.binder)}, 2))",
    }


def _texts(plan: Plan) -> dict[str, str]:
    """Return the texts of breakdown properties, if the fold reads them. Missing ones are empty."""
    if not reads_texts(plan):
        return {}
    texts = (property_text(name, plan.binder) for name in plan.definition.breakdown_properties)
    return {
        f"text_{j}": f"if({text} = '{COMPOSITE}', '', {text})"
        for j, text in enumerate(texts, start=1)
    }


def _entry_columns(plan: Plan) -> dict[str, str]:
    """Return the columns about the query's conditions on entries, if there are any.

    met: for each condition, whether the event meets it. compared: hash of the property that the
    condition compares. Source: semantics, "Equal times".
    """
    definition, binder = plan.definition, plan.binder
    filters = definition.entry_filters
    if any(item.property == FIRST_TIME for item in filters):
        # The first event of a match of step 1 that also passes the other filters.
        matches = plan.entry_matches
        each = [replace(match, filters=(*match.filters, *filters)) for match in matches]
        met = [f"({' OR '.join(match_condition(match, plan) for match in each)})"]
    else:
        met = [filter_condition(item, binder) for item in filters]
    met += [f"NOT ({filter_condition(item, binder)})" for item in definition.internal_traffic]
    compared = [
        "toUInt64(0)" if item.property is None else property_hash(item.property, binder)
        for item in definition.entry_conditions
    ]
    if not met:
        return {}
    return {
        "met": f"CAST([{', '.join(met)}], 'Array(UInt8)')",
        "compared": f"CAST([{', '.join(compared)}], 'Array(UInt64)')",
    }


def small_number(number: str) -> str:
    """Whether a value hash contains a usable sequence number in its upper bits."""
    return f"(bitAnd({number}, 7) = {INTEGER} AND {number} < {2**63})"


def number_of(seq: str) -> str:
    """Return the value hash of a usable sequence number that fits into it, otherwise 0."""
    return f"if({seq} < {2**60}, bitOr(bitShiftLeft({seq}, 3), {INTEGER}), 0)"


def _sequence(plan: Plan) -> str:
    """Return an event's sequence number, or `UNUSABLE` if there is none.

    Source: semantics, "Order".
    """
    if plan.definition.sequence_property is None:
        return f"toUInt64({UNUSABLE})"
    is_big = f"bitAnd(number, 7) = {BIG_INTEGER} AND big <= {LARGEST_NUMBER}"
    return f"""multiIf({small_number("number")}, bitShiftRight(number, 3),
                   {is_big}, assumeNotNull(big), {UNUSABLE})"""


def in_share(binder: Binder, share: tuple[int, int]) -> str:
    """Whether a unit is in a share of all units. Keys are hashes, so all shares are about equal."""
    every, which = (binder.bind("UInt64", number) for number in share)
    return f"unit % {every} = {which}"


def name_scope(plan: Plan) -> str:
    """Return a condition for names that can match. The sort order lets the engine skip others."""
    matches = [match for row in plan.definition.rows for match in row.matches]
    if any(match.is_pattern for match in matches):
        return "1"
    names = sorted({match.value for match in matches})
    return f"events.name IN {plan.binder.bind('Array(String)', names)}"


def period_scope(plan: Plan) -> str:
    """Return a condition for events in the reporting period, using the table's sort order."""
    start, end = plan.params.start_ms, plan.params.end_ms
    if start is None or end is None:
        return "1"
    first, last = (
        f"fromUnixTimestamp64Milli({plan.binder.bind('Int64', at_ms)})" for at_ms in (start, end)
    )
    return f"(events.occurred_at >= {first} AND events.occurred_at < {last})"
