"""Single units, trends and times against the reference evaluation, on random funnels and histories.

Shares `PENSTOCK_EXAMPLES` with the reports' property test: a fifth of it runs here.
"""

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import pairwise, product
from random import Random
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from penstock.base.clock import LATEST_MS
from penstock.base.paging import Page
from penstock.base.scalar import tagged
from penstock.funnels.definitions.model import CountingUnit
from penstock.funnels.queries.engine import ENGINE_SETTINGS
from penstock.funnels.queries.profiles import read_profile
from penstock.funnels.queries.shared_fold import SharedFolds
from penstock.funnels.statements.counted_units import CountedUnits
from penstock.funnels.statements.drivers import (
    AfterStep,
    EventCondition,
    event_groups,
    median_time,
)
from penstock.funnels.statements.one_unit import (
    UnitSelector,
    unit_events,
    unit_names,
    visitors_named,
    visitors_of_attempt,
)
from penstock.funnels.statements.query import QueryParams, Statement, Strategy
from penstock.funnels.statements.unit_visitors import count_visitors, count_visitors_of_units
from penstock.funnels.statements.units import (
    QUANTILES,
    Outcome,
    UnitConditions,
    UnitOrder,
    timing,
    trend,
    units_page,
)
from penstock.funnels.units.attempt_names import attempt_name, read_attempt_name
from penstock.funnels.units.breakdown import breakdown_values
from penstock.funnels.units.run_names import read_run_name, run_name
from penstock.funnels.units.service import by_visitor
from penstock.funnels.units.traced_unit import choose_run, trace_unit
from penstock.warehouse.client import Warehouse
from tests.funnels import reference
from tests.funnels.definitions import resolved
from tests.funnels.examples import example_count, example_settings, share_of_cases, shares_of
from tests.funnels.reference.after_step import compared_units, median_ms
from tests.funnels.reference.matching import as_json
from tests.funnels.reference.report import (
    Unit,
    has_open_window,
    is_settled,
    may_complete,
    read_units,
)
from tests.funnels.reference.runs import (
    Run,
    coarse_times,
    conflicts,
    is_seen,
    seen_by,
)
from tests.funnels.seed import member_keys, store_case
from tests.funnels.strategies import START_MS, Case, cases

EXAMPLES = example_count(30) // 5
SHARES = shares_of(EXAMPLES // 2, least=1)
"""Of each kind of funnel."""

pytestmark = pytest.mark.usefixtures("count_examples")

OTHER_UNITS = pytest.mark.full("many units of the other kinds")
EDGES_MS = (0, 1_000, 10_000, 3_600_000)


class StoredCase:
    """A case in the warehouse, with its units by the reference evaluation."""

    def __init__(self, warehouse: Warehouse, case: Case) -> None:
        self.warehouse, self.case, self.definition = warehouse, case, case.definition
        history, mark = store_case(warehouse, case.history, case.inserts)
        websites = tuple(mark + website for website in case.website_ids)
        scopes = tuple(sorted({event.scope_id for event in history.events}))
        self.params = QueryParams(
            websites,
            scopes,
            case.start_ms,
            case.end_ms,
            case.evaluated_at_ms,
            settled=case.settled,
            members=member_keys(warehouse, history),
        )  # type: ignore[arg-type]
        self.profile = read_profile(warehouse, self.params)
        self.units = read_units(
            history,
            case.funnel,
            websites,
            case.evaluated_at_ms,
            case.goals,
            case.filters,
            case.internal,
        )
        self.selected = self.counted_runs(case.start_ms, case.end_ms)

    def counted_runs(self, start_ms: int | None, end_ms: int | None) -> dict[Unit, Run]:
        """The run of each unit that the query counts, by the reference evaluation."""
        return self.units.counted(start_ms, end_ms, settled_at_ms=self.case.settled_at_ms)

    def counted(self, edges_ms: Sequence[int] | None = None) -> CountedUnits:
        strategy = Strategy.GENERAL if self.case.strategy is Strategy.AUTO else self.case.strategy
        return CountedUnits(self.definition, self.params, self.profile, strategy, edges_ms=edges_ms)

    def records(self, statement: Statement) -> list[dict[str, Any]]:
        """Run a statement. If shards can share its fold, they do."""
        settings, folds = {**ENGINE_SETTINGS, **statement.settings}, SharedFolds(self.warehouse)
        names, rows = folds.query(statement, settings)
        assert folds.is_sharing
        return [dict(zip(names, row, strict=True)) for row in rows]

    def name(self, unit: Any) -> str:
        """Return the name of a unit from the reference evaluation."""
        if isinstance(unit, str):
            return unit
        if self.definition.repeat:
            (_, visitor_id), entry_id = unit
            return f"{visitor_id}@{entry_id}"
        if self.definition.counting_unit is CountingUnit.VISITOR:
            return str(unit[1])
        parts = [part if isinstance(part, str) else plain_part(part) for part in unit]
        return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))

    def names(self, counted: Sequence[dict[str, Any]]) -> dict[int, str]:
        """Return the names of counted units, by key."""
        if self.definition.repeat:
            visitors = self.names_of([row["visitor"] for row in counted])
            return {
                row["unit"]: run_name(visitors[row["visitor"]], row["entry_id"]) for row in counted
            }
        return self.names_of([row["unit"] for row in counted])

    def names_of(self, units: Sequence[int]) -> dict[int, str]:
        """Return the names of visitors or attempts in the warehouse, by key."""
        definition, visitors = self.definition, dict[int, str]()
        rows = self.records(unit_names(definition, self.params, self.profile, units))
        if not definition.attempt_keys:
            return {row["unit"]: row["name"] for row in rows}
        if definition.has_one_visitor:
            keys = [row["visitor"] for row in rows]
            named = unit_names(
                by_visitor(definition), self.params, self.profile, keys, every_name=True
            )
            visitors = {row["unit"]: row["name"] for row in self.records(named)}
        return {row["unit"]: attempt_name(definition, row, visitors) for row in rows}

    def selector(self, unit: int, name: str) -> UnitSelector:
        attempt = read_attempt_name(self.definition, name) if self.definition.attempt_keys else None
        if attempt is None:
            return UnitSelector((unit,))
        visitors = [
            {row["unit"] for row in self.records(visitors_named(self.params, sent_id))}
            for sent_id in attempt.visitor_ids
        ]
        common = tuple(set.intersection(*visitors)) if visitors else None
        return UnitSelector(common, attempt.texts, attempt.session)


def plain_part(part: tuple[Any, ...]) -> Any:
    """Return the ID of a visitor; for `$session`, the website, visitor ID and session ID."""
    return part[1] if len(part) == 2 else [part[0], part[1][1], part[2]]


@pytest.mark.slow("runs many random examples")
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("unit", CountingUnit)
def test_units_agree_with_the_reference_evaluation(
    bare_warehouse: Warehouse, unit: CountingUnit, share: int
) -> None:
    @share_of_cases(share)
    @example_settings(EXAMPLES // (2 * len(SHARES)), unit)
    @given(case=cases(unit))
    def agree(case: Case) -> None:
        assert_agreement(StoredCase(bare_warehouse, case))

    agree()


def assert_agreement(stored: StoredCase) -> None:
    rows = assert_units(stored)
    assert_traces(stored, rows)
    assert_list(stored, len(rows))
    assert_trend(stored)
    assert_timing(stored)
    assert_visitors(stored)
    by_visitors = bool(stored.definition.attempt_keys) and len(rows) % 2 == 1
    assert_events_after(stored, 1, of_visitors=by_visitors)


def assert_units(stored: StoredCase) -> list[dict[str, Any]]:
    """The list of units has every unit with all its fields."""
    rows = stored.records(units_page(stored.counted(), UnitConditions(), UnitOrder(), None, 10_000))
    names = stored.names(rows) if rows else {}
    listed = Counter(
        (
            names[row["unit"]], row["entry_ts"], row["reached"], tuple(row["done"]),
            tuple(row["texts"]), row["skips"], row["ties"], row["invalid"], bool(row["tied"]),
            row["conflicts"], bool(row["several"]), tuple(row["seen"]), row["done_ts"],
            row["coarse"], row["excluded_after"], row["assumed"], bool(row["open"]),
        )
        for row in rows
    )  # fmt: skip
    expected = Counter(
        (
            stored.name(unit), run.entry_ms, run.reached, tuple(run.done_ms), texts(run),
            len(run.skipped), len(run.tied), invalid(stored, unit, run), run.by_agreement,
            conflict_bits(stored, unit, run), has_several_visitors(stored, unit),
            seen(stored, unit, run), run.done_ms[-1],
            coarse_times(stored.units.funnel, stored.units.own(unit, run)),
            -1 if run.excluded_by is None else run.excluded_by.last_ms - run.entry_ms,
            len(run.assumed), may_complete(stored.units, run, stored.case.evaluated_at_ms),
        )
        for unit, run in stored.selected.items()
    )  # fmt: skip
    assert listed == expected
    assert [(row["entry_ts"], row["unit"]) for row in rows] == sorted(
        ((row["entry_ts"], row["unit"]) for row in rows), reverse=True
    )
    assert {row["total"] for row in rows} <= {len(stored.selected)}
    return rows


def assert_list(stored: StoredCase, seed: int) -> None:
    """A list of several steps and outcomes has the units of each pair of them."""
    n, random = len(stored.units.funnel.steps), Random(seed)
    steps = tuple(random.sample(range(1, n + 1), random.randint(1, n)))
    outcomes = tuple(random.sample(list(Outcome), random.randint(1, 4)))
    at_ms = stored.case.evaluated_at_ms
    page = units_page(
        stored.counted(),
        UnitConditions(steps=steps, outcomes=outcomes),
        UnitOrder(),
        None,
        10_000,
    )
    rows = stored.records(page)
    names = stored.names(rows) if rows else {}

    def outcome_of(run: Run) -> Outcome:
        if run.is_excluded:
            return Outcome.EXCLUDED
        if run.reached == n:
            return Outcome.COMPLETED
        is_pending = has_open_window(stored.units, run, at_ms)
        return Outcome.PENDING if is_pending else Outcome.DROPPED_OFF

    def is_listed(run: Run, step: int, outcome: Outcome) -> bool:
        is_done = outcome is Outcome.COMPLETED
        return outcome_of(run) is outcome and (is_done or run.reached == step)

    assert sorted(names.values()) == sorted(
        stored.name(unit)
        for unit, run in stored.selected.items()
        if any(is_listed(run, *pair) for pair in product(steps, outcomes))
    )


def texts(run: Run) -> tuple[str, ...]:
    """The cohort as the warehouse stores it."""
    return tuple(tagged(as_json(value)) for value in run.values)


def has_several_visitors(stored: StoredCase, unit: Unit) -> bool:
    units = stored.units
    required = [event.id for event in units.history(unit) if event.is_required(units.funnel)]
    return len({units.visitors[event_id] for event_id in required}) > 1


def invalid(stored: StoredCase, unit: Unit, run: Run) -> int:
    funnel, events = stored.units.funnel, stored.units.own(unit, run)
    return sum(event.is_invalid and event.is_required(funnel) for event in events)


def conflict_bits(stored: StoredCase, unit: Unit, run: Run) -> int:
    funnel, events = stored.units.funnel, stored.units.history(unit)
    return sum(
        1 << index for index in range(len(run.values)) if conflicts(funnel, events, run, index)
    )


def seen(stored: StoredCase, unit: Unit, run: Run) -> tuple[int, ...]:
    """Of each diagnostic row its events, then of each that is a group whether it is full."""
    funnel, events = stored.units.funnel, stored.units.history(unit)
    rows = [(row, seen_by(funnel, events, run, row)) for row in funnel.rows if row.is_diagnostic]
    full = [is_seen(row, own) for row, own in rows if row.is_group]
    return *(len(own) for _, own in rows), *map(int, full)


def assert_traces(stored: StoredCase, rows: list[dict[str, Any]]) -> None:
    """The traces of two units, from the events that the engine matched, agree with the list."""
    definition, params, profile = stored.definition, stored.params, stored.profile
    for row in rows[:2]:
        [name] = stored.names([row]).values()
        key = row["visitor"] if definition.repeat else row["unit"]
        selector = stored.selector(key, name)
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
        _, entry_id = read_run_name(name)
        choose = partial(choose_run, entry_id=entry_id)
        unit = trace_unit(definition, params, name, events, visitors, choose=choose)
        path = unit.path
        assert path is not None
        assert unit.selected
        assert (path.entry_ms, path.reached, path.skips, path.ties) == (
            row["entry_ts"],
            row["reached"],
            row["skips"],
            row["ties"],
        )
        values = breakdown_values(stored.definition, path)
        assert [item.value for item in values] == row["texts"]
        assert len(unit.decisions) == len(unit.rows)


def assert_trend(stored: StoredCase) -> None:
    """Each bucket is the report of its span, cut by the period."""
    case, units = stored.case, stored.units
    start_ms, end_ms = case.start_ms or 0, case.end_ms or LATEST_MS
    runs = [
        run
        for events in units.by_unit.values()
        for run in units.runs(events)
        if start_ms <= run.entry_ms < end_ms and run.passes
    ]
    entries = sorted(run.entry_ms for run in runs)
    if not entries:
        return
    edges = sorted({entries[0], entries[0] + 1, entries[len(entries) // 2], entries[-1]})
    n = len(units.funnel.steps)
    pair = (1 + len(entries) % (n - 1), n)
    by_step = trend(stored.counted(edges), edges, pair=pair)
    rows = {row["bucket"]: row for row in stored.records(by_step)}
    for from_ms, to_ms in pairwise([*edges, LATEST_MS]):
        own = stored.counted_runs(max(from_ms, start_ms), min(to_ms, end_ms)).values()
        done = [run for run in own if run.reached == n]
        expected = {
            "entered": len(own),
            "completed": len(done),
            "pending": sum(
                run.reached < n
                and not run.is_excluded
                and has_open_window(units, run, case.evaluated_at_ms)
                for run in own
            ),
            "reopened": sum(
                not run.is_excluded
                and not has_open_window(units, run, case.evaluated_at_ms)
                and may_complete(units, run, case.evaluated_at_ms)
                for run in own
            ),
            "reopened_excluded": sum(
                run.is_excluded and may_complete(units, run, case.evaluated_at_ms) for run in own
            ),
            "excluded": sum(run.is_excluded for run in own),
        }
        for name, step in zip(("from", "to"), pair, strict=True):
            reached = [run for run in own if run.reached >= step and not run.is_excluded]
            settled = [is_settled(units, run, case.evaluated_at_ms) for run in reached]
            expected |= {f"reached_{name}": len(reached), f"settled_{name}": sum(settled)}
        row = rows.pop(from_ms, dict.fromkeys(expected, 0))
        assert {name: row[name] for name in expected} == expected
        if done:
            took = [run.done_ms[-1] - run.entry_ms for run in done]
            assert row["median_ms"] == median(took)
    assert not rows


def assert_visitors(stored: StoredCase) -> None:
    """The visitors of the period, and those of the counted units."""
    case, units, definition = stored.case, stored.units, stored.definition
    start_ms, end_ms = case.start_ms or 0, case.end_ms or LATEST_MS
    by_attempt = bool(definition.attempt_keys)
    everybody = {
        units.visitors[event.event_id]
        for event in units.events
        if start_ms <= event.at_ms < end_ms
        and (event.source != "provider" or event.verified or not by_attempt)
    }
    [row] = stored.records(count_visitors(definition, stored.params, stored.profile))
    assert row["visitors"] == len(everybody)
    [row] = stored.records(count_visitors_of_units(stored.counted()))
    if not by_attempt:
        entered = {unit[0] if definition.repeat else unit for unit in stored.selected}
    else:
        first = units.funnel.steps[0]
        entered = {
            units.visitors[event.id]
            for unit, run in stored.selected.items()
            for event in units.history(unit)
            if event.at_ms == run.entry_ms and event.satisfied[first.position]
        }
    assert row["visitors"] == len(entered)
    assert entered <= everybody


def assert_timing(stored: StoredCase) -> None:
    n = len(stored.definition.steps)
    pairs = [(1, n), *((step, step + 1) for step in range(1, n))]
    [record] = stored.records(timing(stored.counted(), pairs, EDGES_MS))
    for index, (first, last) in enumerate(pairs):
        took = sorted(
            run.done_ms[last - 1] - run.done_ms[first - 1]
            for run in stored.selected.values()
            if run.reached >= last
        )
        assert record[f"units_{index}"] == len(took)
        bins = Counter(EDGES_MS[bisect_right(EDGES_MS, took_ms) - 1] for took_ms in took)
        assert dict(record[f"bins_{index}"]) == bins
        if took:
            assert record[f"quantiles_{index}"] == pytest.approx(
                np.quantile(took, QUANTILES).tolist()
            )
            assert (record[f"min_{index}"], record[f"max_{index}"]) == (took[0], took[-1])
            assert record[f"mean_{index}"] == pytest.approx(sum(took) / len(took))


def assert_events_after(stored: StoredCase, step: int, *, of_visitors: bool) -> int:
    """Units are compared by their events soon after a step, and listed by each of these events.

    Returns the number of different events. Without any, only the reference evaluation ran.
    """
    if (expected_ms := median_ms(stored.selected, step)) is None:
        return 0
    within_ms, at_ms = round(expected_ms), stored.case.evaluated_at_ms
    units = compared_units(
        stored.units, stored.selected, step, within_ms, at_ms, of_visitors=of_visitors
    )
    groups = Counter(event for unit in units.values() for event in unit.events)
    if not groups:
        return 0
    lost = Counter(event for unit in units.values() if unit.is_lost for event in unit.events)
    groups["", ""], lost["", ""] = len(units), sum(unit.is_lost for unit in units.values())
    [record] = stored.records(median_time(stored.counted(), step))
    assert round(record["median_ms"]) == within_ms
    after = AfterStep(step, within_ms, of_visitors)
    rows = stored.records(event_groups(stored.counted(), after, 1))
    counts = {(row["kind"], row["name"]): (row["units"], row["lost"]) for row in rows}
    assert counts == {event: (count, lost[event]) for event, count in groups.items()}
    kind, name = max(counts)
    for is_present in (True, False):
        condition = UnitConditions(event=EventCondition(after, kind, name, is_present))
        page = units_page(stored.counted(), condition, UnitOrder(), None, 10_000)
        listed = stored.records(page)
        names = stored.names(listed) if listed else {}
        assert sorted(names.values()) == sorted(
            stored.name(unit)
            for unit, compared in units.items()
            if ((kind, name) in compared.events) == is_present
        )
    return len(groups) - 1


@pytest.mark.slow("runs up to 16 statements over 150 histories")
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param({"countingUnit": "attempt", "attemptProperty": "attempt"}, marks=OTHER_UNITS),
        {"countingUnit": "visitor"},
        pytest.param({"countingUnit": "visitor", "repeat": True}, marks=OTHER_UNITS),
    ],
    ids=["attempts", "visitors", "runs"],
)
def test_many_units_are_listed_by_the_events_after_each_step(
    bare_warehouse: Warehouse, kind: dict[str, Any]
) -> None:
    """A case of the property test has few units, which rarely have events after a step."""
    steps = [{"type": "Event", "value": name} for name in "ABC"]
    funnel = {**kind, "conversionWindowSeconds": 3600, "steps": steps}
    last_ms = START_MS + 4 * 3_600_000
    case = Case(
        funnel,
        {},
        resolved(funnel),
        many_histories(Random(1)),
        ("shop", "app"),
        last_ms,
        None,
        None,
        cohort={},
        page=Page(),
        inserts=2,
        strategy=Strategy.GENERAL,
    )
    stored = StoredCase(bare_warehouse, case)
    options = (False, True) if "attemptProperty" in kind else (False,)
    for step in (1, 2):
        for of_visitors in options:
            assert assert_events_after(stored, step, of_visitors=of_visitors) >= 5


def many_histories(random: Random) -> reference.History:
    """Visitors with a few attempts each. Some share an attempt, are merged, or have Stripe events
    with whole seconds.
    """
    events = []
    for number in range(150):
        at_ms = START_MS + number * 90_000 + random.randint(0, 999)
        for _ in range(random.randint(1, 9)):
            at_ms += random.choice([0, 1, 400, 1_000, 1_000, 3_000, 30_000, 1_000_000])
            visitor = number if random.random() < 0.8 else random.randint(0, 149)
            is_provider = random.random() < 0.1
            kind = "transaction" if is_provider else random.choice(["event"] * 5 + ["pageview"])
            properties: dict[str, Any] = {"attempt": f"a{number}"} if random.random() < 0.9 else {}
            if is_provider:
                at_ms = at_ms // 1000 * 1000
                properties["provider"] = "stripe"
            events.append(
                reference.Event(
                    f"evt_{len(events)}",
                    random.choice(["shop", "app"]),
                    kind,
                    "paid"
                    if is_provider
                    else random.choice("AABBC" if kind == "event" else "PQ")
                    if random.random() < 0.7
                    else random.choice(["help", "chat"]),
                    at_ms,
                    f"v{visitor}",
                    "people",
                    source="provider" if is_provider else "browser",
                    verified=is_provider and random.random() < 0.8,
                    properties=properties,
                )
            )
    merges = {("people", f"v{number}"): f"v{number + 1}" for number in range(0, 20, 2)}
    return reference.History(tuple(events), merges)
