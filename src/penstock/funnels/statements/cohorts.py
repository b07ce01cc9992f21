"""Cohorts of units: their entry values as hashes and as strings, and the cohort filter."""

from penstock.base.scalar import COMPOSITE, Scalar, tagged, value_hash
from penstock.funnels.definitions.model import FIRST, LAST
from penstock.funnels.statements.events import (
    name_scope,
    period_scope,
)
from penstock.funnels.statements.matching import (
    has_engine_hash,
    match_condition,
    property_hash,
    property_text,
    text_hash,
)
from penstock.funnels.statements.packed import combine_hashes
from penstock.funnels.statements.query import Plan
from penstock.funnels.statements.sources import all_events, event_scope, joined_events


def entry_values(plan: Plan, *, on_shards: bool = False) -> str:
    """Return all combinations of values in the events that give the values of the breakdown: those
    of the period that may be an entry, or those of other steps.

    Columns: value (combined hash), keys (a hash each), texts (tagged texts). on_shards: group the
    events on the shards of a cluster already, which takes longer for the engine to analyse.
    """
    numbers = range(1, plan.breadth + 1)
    names = dict(zip(numbers, plan.definition.breakdown_properties, strict=True))
    read = ", ".join(
        f"{property_hash(name, plan.binder)} AS key_{j}, "
        f"{property_text(name, plan.binder)} AS text_{j}"
        for j, name in names.items()
    )
    keys, texts = ([f"{column}_{j}" for j in numbers] for column in ("key", "text"))
    starts = " OR ".join(
        match_condition(match, plan) for row in plan.definition.value_rows for match in row.matches
    )
    events = joined_events(plan) if plan.definition.reads_visitors else all_events(plan)
    source = f"""FROM {events}
              WHERE {event_scope(plan)} AND {name_scope(plan)} AND ({starts})
                AND {period_scope(plan) if plan.definition.is_by_entry else "1"}"""
    if on_shards:
        any_of = ", ".join(f"any({column}) AS any_{column}" for column in (*keys, *texts))
        grouped = f"WITH {read} SELECT {combine_hashes(keys)} AS value, {any_of} {source}"
        keys, texts = ([f"any_{column}" for column in columns] for columns in (keys, texts))
    else:
        known = ", ".join(f"any(key_{j}) AS key_{j}, any(text_{j}) AS text_{j}" for j in numbers)
        grouped = f"""
        SELECT {combine_hashes(keys)} AS value, {known}
        FROM (SELECT {read} {source})"""
    return f"""
    SELECT value, [{", ".join(keys)}] AS keys,
           arrayMap(text -> if(text = '{COMPOSITE}', '', text), [{", ".join(texts)}]) AS texts
    FROM ({grouped}
        GROUP BY value)"""


def texts_join(plan: Plan, source: str) -> tuple[str, str]:
    """Return the texts of a cohort, and the join that they need. source: a relation with `keys`."""
    if plan.definition.breakdown_at not in (FIRST, LAST) or plan.definition.is_by_entry:
        join = f"LEFT ANY JOIN ({known_texts(plan)}) AS known ON {source}.keys = known.keys"
        return f"arrayResize(known.texts, {plan.breadth})", join
    # Each value may come from another event.
    numbers = range(1, plan.breadth + 1)
    joins = (
        f"""LEFT ANY JOIN (
            SELECT keys[{j}] AS own_key, any(texts[{j}]) AS text FROM entry_values GROUP BY own_key
        ) AS texts_{j} ON {source}.keys[{j}] = texts_{j}.own_key"""
        for j in numbers
    )
    return f"[{', '.join(f'texts_{j}.text' for j in numbers)}]", "\n    ".join(joins)


def known_texts(plan: Plan) -> str:
    """Return the texts of all possible cohorts by their keys.

    These are the combinations of entry values, and each combination with any of its values missing,
    because tied entries may agree on only some values.
    """
    indexes = f"range({plan.breadth})"
    part = f"""tuple(
            arrayMap((key, j) -> if(bitTest(kept, j), key, 0), keys, {indexes}),
            arrayMap((text, j) -> if(bitTest(kept, j), text, ''), texts, {indexes}))"""
    return f"""
        SELECT part.1 AS keys, any(part.2) AS texts FROM (
            SELECT arrayJoin(arrayMap(kept -> {part}, range({2**plan.breadth}))) AS part
            FROM entry_values)
        GROUP BY keys"""


def in_cohort_filter(plan: Plan) -> str:
    """Whether a cohort passes the exact cohort filter."""
    conditions = ["1"]
    for name, value in plan.params.cohort.items():
        position = plan.definition.breakdown_properties.index(name) + 1
        conditions.append(f"keys[{position}] = {key_of(plan, name, value)}")
    return " AND ".join(conditions)


def key_of(plan: Plan, name: str, value: Scalar | None) -> str:
    """Return the hash of a value of a breakdown property; 0 for a missing value."""
    text = tagged(value)
    if not text:
        return "0"
    if has_engine_hash(name):
        return text_hash(plan.binder.bind("String", text))
    return plan.binder.bind("UInt64", value_hash(text) % 2**64)
