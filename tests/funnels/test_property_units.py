"""Single units, trends and times against the plain evaluation, on random funnels and histories.

Shares `PENSTOCK_EXAMPLES` with the reports' property test: a fifth of it runs here.
"""

import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from penstock.funnels.definitions.model import CountingUnit, Definition
from penstock.funnels.results.evaluation import ENGINE_SETTINGS, facts_of
from penstock.funnels.statements.counted_units import CountedUnits
from penstock.funnels.statements.one_unit import Whose, attempt_named, unit_events, unit_names, visitors_of_attempt
from penstock.funnels.statements.query import Question, Statement, Strategy
from penstock.funnels.statements.units import QUANTILES, Wanted, timing, trend, units_page
from penstock.funnels.units.trace import Journey, conflicts, seen_by_diagnostics
from penstock.funnels.units.tracing import read_properties, unit_of
from penstock.warehouse.client import Warehouse
from tests.funnels import plain
from tests.funnels.seed import store_case
from tests.funnels.strategies import Case, cases

EXAMPLES = int(os.environ.get("PENSTOCK_EXAMPLES", "2000")) // 5
SHARES = range(5)
"""Each kind of funnel in five parts, so that parallel runs divide them."""

EDGES_MS = (0, 1_000, 10_000, 3_600_000)

examples = settings(
    max_examples=max(1, EXAMPLES // (2 * len(SHARES))),
    deadline=None,
    print_blob=True,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


class Asked:
    """A case that is stored, with the plain evaluation's units of it."""

    def __init__(self, warehouse: Warehouse, case: Case) -> None:
        self.warehouse, self.case, self.definition = warehouse, case, case.definition
        history, mark = store_case(warehouse, case.history, case.inserts)
        websites = tuple(mark + website for website in case.website_ids)
        scopes = tuple(sorted({event.scope_id for event in history.events}))
        self.question = Question(websites, scopes, case.start_ms, case.end_ms, case.evaluated_at_ms)  # type: ignore[arg-type]
        self.facts = facts_of(warehouse, self.question)
        events = [event for event in history.events if event.website_id in websites and event.at_ms <= case.evaluated_at_ms]
        self.units, _ = plain.split_into_units(history, self.definition, events)
        self.selected: Mapping[Any, Journey] = plain.selected_units(self.definition, self.units, case.start_ms, case.end_ms)

    def counted(self) -> CountedUnits:
        strategy = Strategy.GENERAL if self.case.strategy is Strategy.AUTO else self.case.strategy
        return CountedUnits(self.definition, self.question, self.facts, strategy)

    def records(self, statement: Statement) -> list[dict[str, Any]]:
        names, rows = self.warehouse.query(statement.sql, statement.parameters, ENGINE_SETTINGS)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def name(self, unit: Any) -> str:
        name: str = unit if self.definition.counting_unit is CountingUnit.ATTEMPT else unit[1]
        return name


@pytest.mark.slow
@pytest.mark.parametrize("share", SHARES)
@examples
@given(case=cases(CountingUnit.ATTEMPT))
def test_units_of_attempt_funnels_agree_with_the_plain_evaluation(warehouse: Warehouse, share: int, case: Case) -> None:
    assert_agreement(Asked(warehouse, case))


@pytest.mark.slow
@pytest.mark.parametrize("share", SHARES)
@examples
@given(case=cases(CountingUnit.VISITOR))
def test_units_of_visitor_funnels_agree_with_the_plain_evaluation(warehouse: Warehouse, share: int, case: Case) -> None:
    assert_agreement(Asked(warehouse, case))


def assert_agreement(asked: Asked) -> None:
    rows = assert_units(asked)
    assert_traces(asked, rows)
    assert_trend(asked)
    assert_timing(asked)


def assert_units(asked: Asked) -> list[dict[str, Any]]:
    """Every unit with everything that is listed of it."""
    definition = asked.definition
    rows = asked.records(units_page(asked.counted(), Wanted(), None, 10_000))
    names = {record["unit"]: record["name"] for record in asked.records(named(asked, [row["unit"] for row in rows]))} if rows else {}
    listed = Counter(
        (
            names[row["unit"]], row["entry_ts"], row["reached"], tuple(row["done"]), tuple(row["texts"]),
            row["skips"], row["ties"], row["invalid"], bool(row["tied"]), row["conflicts"], bool(row["several"]), tuple(row["seen"]),
            row["done_ts"],
        )
        for row in rows
    )  # fmt: skip
    several = several_visitors(asked)
    expected = Counter(
        (
            asked.name(unit), journey.entry_ms, journey.reached, tuple(done.at_ms for done in journey.completed), journey.values,
            journey.skips, journey.ties, invalid(definition, journey), journey.tied, conflict_bits(definition, journey), unit in several,
            seen(definition, journey), journey.completed[-1].at_ms,
        )
        for unit, journey in asked.selected.items()
    )  # fmt: skip
    assert listed == expected
    assert [(row["entry_ts"], row["unit"]) for row in rows] == sorted(((row["entry_ts"], row["unit"]) for row in rows), reverse=True)
    assert {row["total"] for row in rows} <= {len(asked.selected)}
    return rows


def named(asked: Asked, units: list[int]) -> Statement:
    return unit_names(asked.definition, asked.question, asked.facts, units)


def several_visitors(asked: Asked) -> set[Any]:
    if asked.definition.counting_unit is CountingUnit.VISITOR:
        return set()
    history = asked.case.history
    events = {event.event_id: event for event in history.events}
    steps = [place for place, row in enumerate(asked.definition.rows) if not row.diagnostic]
    found = set()
    for unit, journey in asked.selected.items():
        own = [events[reading.event_id] for reading in journey.events if any(reading.matched[place] for place in steps)]
        if len({history.visitor(event) for event in own}) > 1:
            found.add(unit)
    return found


def invalid(definition: Definition, journey: Journey) -> int:
    steps = [place for place, row in enumerate(definition.rows) if not row.diagnostic]
    return sum(reading.invalid and any(reading.matched[place] for place in steps) for reading in journey.events)


def conflict_bits(definition: Definition, journey: Journey) -> int:
    return sum(1 << place for place in range(len(definition.breakdown_properties)) if conflicts(journey, place))


def seen(definition: Definition, journey: Journey) -> tuple[int, ...]:
    found = seen_by_diagnostics(definition, journey)
    return tuple(len(found.get(place, ())) for place, row in enumerate(definition.rows) if row.diagnostic)


def assert_traces(asked: Asked, rows: list[dict[str, Any]]) -> None:
    """The trace, from the events as the engine matched them, comes to the same as the statement. Of a few units: each takes two queries."""
    definition, question, facts = asked.definition, asked.question, asked.facts
    for row in rows[:2]:
        [record] = asked.records(named(asked, [row["unit"]]))
        name = record["name"]
        by_attempt = definition.counting_unit is CountingUnit.ATTEMPT
        whose = attempt_named(name) if by_attempt else Whose((row["unit"],))
        events = asked.records(unit_events(definition, question, facts, whose, read_properties(definition), 1000, matching=False))
        witnesses = {}
        if definition.counting_unit is CountingUnit.ATTEMPT:
            witnesses = {record["visitor"] for record in asked.records(visitors_of_attempt(definition, question, facts, whose))}
        unit = unit_of(definition, question, name, events, witnesses, matching_only=False)
        journey = unit.journey
        assert journey is not None
        assert unit.selected
        assert (journey.entry_ms, journey.reached, journey.skips, journey.ties) == (
            row["entry_ts"],
            row["reached"],
            row["skips"],
            row["ties"],
        )
        assert journey.values == tuple(row["texts"])
        assert len(unit.decisions) == len(unit.rows)


def assert_trend(asked: Asked) -> None:
    entries = sorted(journey.entry_ms for journey in asked.selected.values())
    if not entries:
        return
    edges = sorted({entries[0], entries[0] + 1, entries[len(entries) // 2], entries[-1]})
    rows = asked.records(trend(asked.counted(), edges))
    n = len(asked.definition.steps)
    assert sum(row["entered"] for row in rows) == len(asked.selected)
    for row in rows:
        later = [edge for edge in edges if edge > row["bucket"]]
        own = [j for j in asked.selected.values() if row["bucket"] <= j.entry_ms and not (later and j.entry_ms >= later[0])]
        pending = [j for j in own if j.reached < n and j.is_open(asked.case.evaluated_at_ms)]
        assert (row["entered"], row["completed"], row["pending"]) == (len(own), sum(j.reached == n for j in own), len(pending))


def assert_timing(asked: Asked) -> None:
    n = len(asked.definition.steps)
    pairs = [(1, n), *((step, step + 1) for step in range(1, n))]
    [record] = asked.records(timing(asked.counted(), pairs, EDGES_MS))
    for place, (first, last) in enumerate(pairs):
        took = sorted(
            journey.completed[last - 1].at_ms - journey.completed[first - 1].at_ms
            for journey in asked.selected.values()
            if journey.reached >= last
        )
        assert record[f"units_{place}"] == len(took)
        assert sum(record[f"bins_{place}"][1]) == len(took)
        if took:
            assert record[f"quantiles_{place}"] == pytest.approx(np.quantile(took, QUANTILES).tolist())
            assert (record[f"least_{place}"], record[f"most_{place}"]) == (took[0], took[-1])
            assert record[f"mean_{place}"] == pytest.approx(sum(took) / len(took))
