"""Builds the relations that count units, and complete statements from relations.

Units come from stored outcomes, from the general fold or, where there are many events, from both
folds: the packed fold counts simple units, the general fold complex ones. The resulting rows are
the same.
"""

from collections.abc import Collection, Mapping
from typing import Any

from penstock.funnels.statements.cohorts import entry_values
from penstock.funnels.statements.events import matched_events
from penstock.funnels.statements.fold import general_units
from penstock.funnels.statements.packed import COMPLEX, Layout, layout_of, tallies, unit_chains
from penstock.funnels.statements.providers import checked_events
from penstock.funnels.statements.query import DataProfile, Plan, Statement, Strategy
from penstock.funnels.statements.stored import stored_units, stored_values

WORTH_PACKING = 200_000
"""Minimum number of events for the packed fold. With fewer events, analysing its longer statement
takes more time than it saves.
"""
_MANY_EVENTS = 500_000
"""Number of events above which running a statement takes longer than analysing it."""
_SETTINGS_FOR_FEW_EVENTS = {
    # Merging expressions takes a sixth of the analysis. It saves a twentieth of a long run.
    "query_plan_merge_expressions": 0,
}
_SETTINGS_FOR_MANY_EVENTS = {
    # Compiling the groupings takes 0.1 s, once for each number of steps.
    "min_count_to_compile_aggregate_expression": 0,
    # Four times the engine's default: fewer blocks to group, for slightly more memory.
    "max_block_size": 262_144,
}


def unit_relations(
    plan: Plan, strategy: Strategy = Strategy.AUTO, *, detailed: bool, values: str | None = None
) -> tuple[dict[str, str], Layout | None]:
    """Return relations by name, up to `units`, and the layout if the packed fold is used.

    `units` has a row for each unit. With the packed fold, it contains only complex units; simple
    units stay in `chains`. detailed: add `DETAIL_COLUMNS` to units; otherwise sum up simple units
    in `tallies`, which takes less time. values: replaces `entry_values`, with the same columns.
    """
    if plan.profile.build is not None:
        relations = {"units": stored_units(plan)}
        if plan.breadth:
            relations["entry_values"] = stored_values(plan)
        return relations, None
    relations = {"matched": matched_events(plan)}
    events = "matched"
    layout = layout_of(plan) if _is_packed(strategy, plan.profile) else None
    if layout:
        relations["chains"] = unit_chains(plan, layout)
        complex_units = f"SELECT unit FROM chains WHERE class = {COMPLEX}"
        if not detailed:
            relations["tallies"] = tallies(plan, layout)
            complex_units = "SELECT arrayJoin(units) FROM tallies"
        relations["complex_events"] = f"SELECT * FROM matched WHERE unit IN ({complex_units})"
        events = "complex_events"
    if plan.definition.attempt_keys and plan.profile.has_provider_events:
        relations |= checked_events(plan, events)
        events = "(SELECT * FROM checked WHERE NOT left_out)"
    relations["units"] = general_units(plan, events, detailed=detailed)
    if plan.breadth:
        relations["entry_values"] = values or entry_values(plan)
    return relations, layout


def _is_packed(strategy: Strategy, profile: DataProfile) -> bool:
    return strategy is Strategy.PACKED or (
        strategy is Strategy.AUTO and profile.events >= WORTH_PACKING
    )


def compose(
    plan: Plan, relations: Mapping[str, str], tail: str, more: Collection[str] = ()
) -> Statement:
    """Return the statement that ends with `tail` and may read the relations.

    The engine keeps the rows of relations with several readers. The packed fold also reads
    `matched` twice, but reading many events again is faster than keeping them.
    more: other relations whose rows the engine keeps.
    """
    is_packed, has_few_events = "chains" in relations, plan.profile.events < _MANY_EVENTS
    materialized = {
        *more,
        "compared",
        "entry_values",
        "tallies" if "tallies" in relations else "chains",
    }
    if is_packed and has_few_events:
        materialized.add("matched")
    settings: Mapping[str, Any] = {}
    if has_few_events:
        settings = _SETTINGS_FOR_FEW_EVENTS
    elif is_packed:
        settings = _SETTINGS_FOR_MANY_EVENTS
    return Statement(with_relations(relations, tail, materialized), plan.binder.values, settings)


def with_relations(
    relations: Mapping[str, str], tail: str, materialized: Collection[str] = ()
) -> str:
    """Return SQL over named relations. materialized: relations whose rows the engine keeps."""
    named = ",\n".join(
        f"{name} AS {'MATERIALIZED ' if name in materialized else ''}({sql})"
        for name, sql in relations.items()
    )
    return f"WITH {named}\n{tail}"
