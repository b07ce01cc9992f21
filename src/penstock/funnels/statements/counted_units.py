"""Counted units, one row each, for lists of units, trends, times and next events."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import reduce

from penstock.funnels.definitions.model import CountingUnit, Definition
from penstock.funnels.statements.exclusions import NOT_EXCLUDED
from penstock.funnels.statements.fold import DETAIL_COLUMNS, UNIT_COLUMNS
from penstock.funnels.statements.packed import SIMPLE, Layout, is_done, sorted_firsts
from penstock.funnels.statements.query import (
    DataProfile,
    Plan,
    QueryParams,
    SharedFold,
    Statement,
    Strategy,
    Subset,
)
from penstock.funnels.statements.relations import compose, unit_relations, with_relations
from penstock.funnels.statements.runs import RUN_COLUMNS
from penstock.funnels.statements.shared_fold import (
    is_complete,
    send_events,
    shards_of,
    shared_relations,
)

COLUMNS = ("unit", *UNIT_COLUMNS, *DETAIL_COLUMNS)


class CountedUnits:
    """The relation `counted`, with `columns`: one row per unit whose entry is in the period.

    Keys are hashes. The relation `entry_values` contains their texts if the funnel has breakdown
    properties. edges_ms: starts of spans, as in `Plan`; if set, there is one row per visitor and
    span.
    """

    def __init__(
        self,
        definition: Definition,
        params: QueryParams,
        profile: DataProfile,
        strategy: Strategy = Strategy.AUTO,
        *,
        edges_ms: Sequence[int] | None = None,
    ) -> None:
        self.plan = Plan(definition, params, profile, edges_ms=edges_ms)
        self._relations = counted_units(self.plan, strategy)
        self.columns = (*COLUMNS, *RUN_COLUMNS) if self.plan.repeats else COLUMNS

    def add_by_entries_of_period(self, units: Sequence[int]) -> None:
        """Add these attempts, which the relation lacks, with their best entry in the period."""
        own = self.plan
        plan = Plan(
            replace(own.definition, counting_unit=CountingUnit.VISITOR),
            own.params,
            replace(own.profile, build=None),
            subset=Subset(units=units),
        )
        plan.binder = own.binder
        columns = ", ".join(self.columns)
        added = with_relations(
            counted_units(plan, Strategy.GENERAL), f"SELECT {columns} FROM counted"
        )
        self._relations["counted"] += f" UNION ALL SELECT {columns} FROM ({added})"

    def statement(self, tail: str, *, materialized: Collection[str] = (), **more: str) -> Statement:
        """Return a statement that ends with `tail`.

        more: other relations by name. They and the tail may read `counted`. materialized: names of
        relations whose rows the engine keeps, because they are read several times.
        """
        return compose(self.plan, {**self._relations, **more}, tail, materialized)

    def summary(self, columns: str, tail: str) -> Statement:
        """Return a statement that only sums up `counted`, on the shards of a cluster if they share
        the fold.

        columns: aggregates. tail: the rest of the statement, from WHERE.
        """
        statement = self.statement(f"SELECT {columns} FROM counted {tail}")
        shards = shards_of(self.plan)
        if shards is None:
            return statement
        own = shared_relations(self.plan, self._relations)
        complete = is_complete(self.plan, shards)
        units = f"SELECT {', '.join(self.columns)} FROM counted WHERE {complete}"
        received = shards.read(compose(self.plan, own, units).sql)
        fold = f"SELECT {columns} FROM {received} AS counted {tail}"
        return replace(statement, shared=SharedFold(send_events(self.plan, shards), fold))


def counted_units(
    plan: Plan, strategy: Strategy = Strategy.AUTO, *, values: str | None = None
) -> dict[str, str]:
    """Return the relation `counted`, preceded by the relations that it reads.

    It has the additional columns `visitors` and `first_ts` if `plan.keeps_visitors`, and
    `RUN_COLUMNS` if every run counts.
    values: see `unit_relations`.
    """
    relations, layout = unit_relations(plan, strategy, detailed=True, values=values)
    more = ("visitors", "first_ts") if plan.keeps_visitors else RUN_COLUMNS if plan.repeats else ()
    columns = ", ".join((*COLUMNS, *more))
    counted = f"SELECT {columns} FROM units"
    if layout:
        counted += f" UNION ALL SELECT {columns} FROM ({_simple_units(plan, layout)})"
    return {**relations, "counted": counted}


def _simple_units(plan: Plan, layout: Layout) -> str:
    """Select the packed fold's simple units, with the same columns as folded units.

    By definition, a simple unit has no data problems except possibly several visitors.
    """
    diagnostics = plan.definition.diagnostics
    seen = len(diagnostics) + sum(row.all_of for row in diagnostics)
    keys = (
        f"arrayResize(entry_values.keys, {plan.breadth})"
        if plan.breadth
        else "CAST([], 'Array(UInt64)')"
    )
    more = (
        ", CAST([], 'Array(UInt64)') AS visitors, chains.first_ts AS first_ts"
        if plan.keeps_visitors
        else ""
    )
    positions = "chains.positions"
    if plan.definition.in_any_order:
        positions = sorted_firsts(positions)
    join = "LEFT ANY JOIN entry_values ON chains.value = entry_values.value" if plan.breadth else ""
    return f"""
        SELECT chains.unit AS unit, {keys} AS keys, toUInt8(chains.reached) AS reached,
               chains.entry_ts AS entry_ts, chains.done_ts AS done_ts,
               {_chosen_matches(plan, layout)} AS chosen,
               toUInt32(0) AS skips, toUInt32(0) AS ties, toUInt32(0) AS invalid, 0 AS tied,
               toUInt8(0) AS conflicts, chains.several AS several,
               arrayResize(CAST([], 'Array(UInt32)'), {seen}) AS seen, 0 AS cut,
               toUInt32(0) AS coarse, toUInt32(0) AS assumed,
               {NOT_EXCLUDED} AS excluded_after, chains.open AS open,
               arrayMap(p -> {layout.time("p")},
                        arraySlice({positions}, 1, chains.reached)) AS done,
               chains.window_end AS window_end{more}
        FROM chains {join} WHERE chains.class = {SIMPLE}"""


def _chosen_matches(plan: Plan, layout: Layout) -> str:
    """Return a mask of the matches that count for the completed steps."""
    parts = []
    for position, step in enumerate(plan.steps, start=1):
        bits = ", ".join(plan.mask(bit) for bit in step.each)
        option = layout.option(f"chains.positions[{position}]") if len(step.each) > 1 else "0"
        done = is_done(plan, position, "chains.positions")
        parts.append(f"if({done}, [{bits}][{option} + 1], {plan.mask(0)})")
    return reduce(lambda left, right: f"bitOr({left}, {right})", parts)
