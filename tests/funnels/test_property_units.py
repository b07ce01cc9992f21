"""Single units, trends and times against the reference evaluation, on random funnels and histories.

Shares `PENSTOCK_EXAMPLES` with the reports' property test: a fifth of it runs here.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from penstock.base.clock import LATEST_MS
from penstock.funnels.definitions.model import CountingUnit, Definition
from penstock.funnels.queries.engine import ENGINE_SETTINGS
from penstock.funnels.queries.profiles import read_profile
from penstock.funnels.statements.counted_units import CountedUnits
from penstock.funnels.statements.one_unit import (
    UnitSelector,
    attempt_named,
    unit_events,
    unit_names,
    visitors_of_attempt,
)
from penstock.funnels.statements.query import QueryParams, Statement, Strategy
from penstock.funnels.statements.units import QUANTILES, UnitConditions, timing, trend, units_page
from penstock.funnels.units.trace import (
    FunnelPath,
    coarse_times,
    conflicts,
    fills_row,
    funnel_paths,
    in_period,
    seen_by_diagnostics,
)
from penstock.funnels.units.traced_unit import unit_of
from penstock.warehouse.client import Warehouse
from tests.funnels import reference
from tests.funnels.examples import example_count, example_settings, share_of_cases, shares_of
from tests.funnels.seed import store_case
from tests.funnels.strategies import Case, cases

EXAMPLES = example_count(50) // 5
SHARES = shares_of(EXAMPLES // 2, least=5)
"""Of each kind of funnel."""

pytestmark = pytest.mark.usefixtures("count_examples")

EDGES_MS = (0, 1_000, 10_000, 3_600_000)

examples = example_settings(EXAMPLES // (2 * len(SHARES)))


class StoredCase:
    """A case in the warehouse, with its units by the reference evaluation."""

    def __init__(self, warehouse: Warehouse, case: Case) -> None:
        self.warehouse, self.case, self.definition = warehouse, case, case.definition
        history, mark = store_case(warehouse, case.history, case.inserts)
        websites = tuple(mark + website for website in case.website_ids)
        history = reference.with_touches(history, websites, case.evaluated_at_ms)
        scopes = tuple(sorted({event.scope_id for event in history.events}))
        self.params = QueryParams(
            websites, scopes, case.start_ms, case.end_ms, case.evaluated_at_ms
        )  # type: ignore[arg-type]
        self.profile = read_profile(warehouse, self.params)
        events = [
            event
            for event in history.events
            if event.website_id in websites and event.at_ms <= case.evaluated_at_ms
        ]
        self.units, _ = reference.split_into_units(history, self.definition, events)
        self.selected: Mapping[Any, FunnelPath] = reference.selected_units(
            self.definition, self.units, case.start_ms, case.end_ms
        )

    def counted(self, edges_ms: Sequence[int] | None = None) -> CountedUnits:
        strategy = Strategy.GENERAL if self.case.strategy is Strategy.AUTO else self.case.strategy
        return CountedUnits(self.definition, self.params, self.profile, strategy, edges_ms=edges_ms)

    def records(self, statement: Statement) -> list[dict[str, Any]]:
        settings = {**ENGINE_SETTINGS, **statement.settings}
        names, rows = self.warehouse.query(statement.sql, statement.parameters, settings)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def name(self, unit: Any) -> str:
        name: str = unit if self.definition.counting_unit is CountingUnit.ATTEMPT else unit[1]
        return name


@pytest.mark.slow("runs many random examples")
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("unit", CountingUnit)
def test_units_agree_with_the_reference_evaluation(
    bare_warehouse: Warehouse, unit: CountingUnit, share: int
) -> None:
    @share_of_cases(share)
    @examples
    @given(case=cases(unit))
    def agree(case: Case) -> None:
        assert_agreement(StoredCase(bare_warehouse, case))

    agree()


def assert_agreement(stored: StoredCase) -> None:
    rows = assert_units(stored)
    assert_traces(stored, rows)
    assert_trend(stored)
    assert_timing(stored)


def assert_units(stored: StoredCase) -> list[dict[str, Any]]:
    """The list of units has every unit with all its fields."""
    definition = stored.definition
    rows = stored.records(units_page(stored.counted(), UnitConditions(), None, 10_000))
    names = (
        {
            record["unit"]: record["name"]
            for record in stored.records(names_of(stored, [row["unit"] for row in rows]))
        }
        if rows
        else {}
    )
    listed = Counter(
        (
            names[row["unit"]], row["entry_ts"], row["reached"], tuple(row["done"]),
            tuple(row["texts"]), row["skips"], row["ties"], row["invalid"], bool(row["tied"]),
            row["conflicts"], bool(row["several"]), tuple(row["seen"]), row["done_ts"],
            row["coarse"],
        )
        for row in rows
    )  # fmt: skip
    several = several_visitors(stored)
    expected = Counter(
        (
            stored.name(unit), path.entry_ms, path.reached,
            tuple(path.done_ms), path.values, path.skips, path.ties,
            invalid(definition, path), path.tied, conflict_bits(definition, path), unit in several,
            seen(definition, path), path.done_ms[-1],
            coarse_times(definition, path.events),
        )
        for unit, path in stored.selected.items()
    )  # fmt: skip
    assert listed == expected
    assert [(row["entry_ts"], row["unit"]) for row in rows] == sorted(
        ((row["entry_ts"], row["unit"]) for row in rows), reverse=True
    )
    assert {row["total"] for row in rows} <= {len(stored.selected)}
    return rows


def names_of(stored: StoredCase, units: list[int]) -> Statement:
    return unit_names(stored.definition, stored.params, stored.profile, units)


def several_visitors(stored: StoredCase) -> set[Any]:
    if stored.definition.counting_unit is CountingUnit.VISITOR:
        return set()
    history = stored.case.history
    events = {event.event_id: event for event in history.events}
    steps = [place for place, row in enumerate(stored.definition.rows) if not row.diagnostic]
    units = set()
    for unit, path in stored.selected.items():
        own = [
            events[matched_event.event_id]
            for matched_event in path.events
            if any(matched_event.matched[place] for place in steps)
        ]
        if len({history.visitor(event) for event in own}) > 1:
            units.add(unit)
    return units


def invalid(definition: Definition, path: FunnelPath) -> int:
    steps = [place for place, row in enumerate(definition.rows) if not row.diagnostic]
    return sum(
        matched_event.invalid and any(matched_event.matched[place] for place in steps)
        for matched_event in path.events
    )


def conflict_bits(definition: Definition, path: FunnelPath) -> int:
    return sum(
        1 << place
        for place in range(len(definition.breakdown_properties))
        if conflicts(definition, path, place)
    )


def seen(definition: Definition, path: FunnelPath) -> tuple[int, ...]:
    """Of each diagnostic row its events, then of each that is a group whether it is full."""
    rows = seen_by_diagnostics(definition, path)
    own = [
        (row, place, rows.get(place, []))
        for place, row in enumerate(definition.rows)
        if row.diagnostic
    ]
    full = [fills_row(row, place, events) for row, place, events in own if row.all_of]
    return *(len(events) for _, _, events in own), *map(int, full)


def assert_traces(stored: StoredCase, rows: list[dict[str, Any]]) -> None:
    """The traces of two units, from the events that the engine matched, agree with the list."""
    definition, params, profile = stored.definition, stored.params, stored.profile
    for row in rows[:2]:
        [record] = stored.records(names_of(stored, [row["unit"]]))
        name = record["name"]
        by_attempt = definition.counting_unit is CountingUnit.ATTEMPT
        selector = attempt_named(name) if by_attempt else UnitSelector((row["unit"],))
        events = stored.records(
            unit_events(
                definition,
                params,
                profile,
                selector,
                definition.read_properties,
                1000,
                matching=False,
            )
        )
        visitors = {}
        if definition.counting_unit is CountingUnit.ATTEMPT:
            visitors = {
                record["visitor"]
                for record in stored.records(
                    visitors_of_attempt(definition, params, profile, selector)
                )
            }
        unit = unit_of(definition, params, name, events, visitors, matching_only=False)
        path = unit.path
        assert path is not None
        assert unit.selected
        assert (path.entry_ms, path.reached, path.skips, path.ties) == (
            row["entry_ts"],
            row["reached"],
            row["skips"],
            row["ties"],
        )
        assert path.values == tuple(row["texts"])
        assert len(unit.decisions) == len(unit.rows)


def assert_trend(stored: StoredCase) -> None:
    """Each bucket is the report of its span, cut by the period."""
    case, definition = stored.case, stored.definition
    paths = [
        path
        for events in stored.units.values()
        for path in funnel_paths(definition, events)
        if in_period(path.entry_ms, case.start_ms, case.end_ms)
    ]
    entries = sorted(path.entry_ms for path in paths)
    if not entries:
        return
    edges = sorted({entries[0], entries[0] + 1, entries[len(entries) // 2], entries[-1]})
    rows = {row["bucket"]: row for row in stored.records(trend(stored.counted(edges), edges))}
    n = len(definition.steps)
    for start_ms, end_ms in pairwise([*edges, LATEST_MS]):
        own = reference.selected_units(
            definition,
            stored.units,
            max(start_ms, case.start_ms or 0),
            min(end_ms, case.end_ms or LATEST_MS),
        ).values()
        done = [path for path in own if path.reached == n]
        expected = {
            "entered": len(own),
            "completed": len(done),
            "pending": sum(path.reached < n and path.is_open(case.evaluated_at_ms) for path in own),
        }
        row = rows.pop(start_ms, dict.fromkeys(expected, 0))
        assert {name: row[name] for name in expected} == expected
        if done:
            took = [path.done_ms[-1] - path.entry_ms for path in done]
            assert row["median_ms"] == median(took)
    assert not rows


def assert_timing(stored: StoredCase) -> None:
    n = len(stored.definition.steps)
    pairs = [(1, n), *((step, step + 1) for step in range(1, n))]
    [record] = stored.records(timing(stored.counted(), pairs, EDGES_MS))
    for place, (first, last) in enumerate(pairs):
        took = sorted(
            path.done_ms[last - 1] - path.done_ms[first - 1]
            for path in stored.selected.values()
            if path.reached >= last
        )
        assert record[f"units_{place}"] == len(took)
        bins = Counter(EDGES_MS[bisect_right(EDGES_MS, took_ms) - 1] for took_ms in took)
        assert dict(record[f"bins_{place}"]) == bins
        if took:
            assert record[f"quantiles_{place}"] == pytest.approx(
                np.quantile(took, QUANTILES).tolist()
            )
            assert (record[f"least_{place}"], record[f"most_{place}"]) == (took[0], took[-1])
            assert record[f"mean_{place}"] == pytest.approx(sum(took) / len(took))
