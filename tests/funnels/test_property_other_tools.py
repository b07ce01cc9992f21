"""The service's counts by the rules of other tools against a second program, on random visitors.

`PENSTOCK_EXAMPLES` is the number of visitors for each tool and mode, 20 in each funnel: 60 by
default.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.clock import parse_time
from penstock.warehouse.client import Warehouse
from tests.funnels.examples import example_count, example_settings
from tests.funnels.reference.other_tools import (
    NOTHING,
    TOOLS,
    Event,
    Result,
    ToolQuery,
    amplitude,
    by_value,
    mixpanel,
    own_by_value,
    own_result,
    reasons,
    window_funnel,
)
from tests.funnels.scenario import DAY_S, Json, Scene

VISITORS = 20
"""In each example."""
EXAMPLES = max(1, example_count(60) // VISITORS)

STEPS = (["A", "B"], ["A", "B", "C"], ["A", "A"], ["A", "B", "A"], ["A", "AB"], ["AB", "BC", "C"])
MODES = (
    (),
    ("strict_increase",),
    ("strict_order",),
    ("strict_once",),
    ("strict_once", "strict_increase"),
)
WINDOW_S = 60
OFFSETS_MS = (0, 0, 0, 0, 30, 700, 1700, 2000, -1700, -1)
NUMBERS = (None, None, None, 1, 2, 3)
VALUES = (None, "x", "y")

UnitEvent = tuple[int, str, int | None, str | None]
"""Time in milliseconds from the beginning, name, sequence number and value of an event."""
Unit = Sequence[UnitEvent]


@dataclass(frozen=True, slots=True)
class Case:
    """A funnel over the events of several units.

    rule: `excluded` for an exclusion row after step 1, `strict` or `any order`; empty for none.
    """

    steps: Sequence[Sequence[str]]
    period_s: tuple[int, int] | None
    of_attempts: bool
    has_numbers: bool
    units: Sequence[Unit]
    rule: str = ""


def events(names: str) -> st.SearchStrategy[UnitEvent]:
    return st.builds(
        lambda tens, offset, *more: (max(0, 10_000 * tens + offset), *more),
        st.integers(0, 9),
        st.sampled_from(OFFSETS_MS),
        st.sampled_from(names),
        st.sampled_from(NUMBERS),
        st.sampled_from(VALUES),
    )


cases = st.builds(
    Case,
    st.sampled_from(STEPS),
    st.sampled_from([None, (20, 70), (0, 50)]),
    st.booleans(),
    st.booleans(),
    st.lists(st.lists(events("ABC"), min_size=1, max_size=7), min_size=VISITORS, max_size=VISITORS),
)


def cases_of(rule: str) -> st.SearchStrategy[Case]:
    """Cases of a rule, whose units have no events with equal times."""
    unit = st.lists(events("ABCX"), min_size=1, max_size=7, unique_by=lambda event: event[0])
    return st.builds(
        Case,
        st.sampled_from(STEPS[:2]),
        st.sampled_from([None, (20, 70), (0, 50)]),
        st.booleans(),
        st.just(False),
        st.lists(unit, min_size=VISITORS, max_size=VISITORS),
        st.just(rule),
    )


cases_with_values = st.builds(
    Case,
    st.sampled_from(STEPS[:2]),
    st.sampled_from([None, (20, 70), (0, 50)]),
    st.booleans(),
    st.booleans(),
    st.lists(
        st.lists(events("ABC"), min_size=1, max_size=7, unique_by=lambda event: event[0] // 1000),
        min_size=VISITORS,
        max_size=VISITORS,
    ),
)
"""Units without events of the same second, whose values would have no order."""


@dataclass
class Stage:
    """Sends the cases to a service, each with its own names of events and units.

    before_hour_s: seconds from the beginning of the cases to the next full hour. A trend by hour
    has room for 40 days.
    """

    scene: Scene
    cases: int = 0
    before_hour_s: int = 0

    def __post_init__(self) -> None:
        if self.before_hour_s:
            self.scene.start_ms += 60 * DAY_S * 1000
        self.scene.start_ms -= self.scene.start_ms % 3_600_000 + self.before_hour_s * 1000

    def name(self, name: str) -> str:
        return f"{self.cases} {name}"

    def perform(self, case: Case) -> tuple[str, ToolQuery, Mapping[str, Sequence[Event]]]:
        """Store a case. Return its funnel, the question about it, and the events of each unit."""
        self.cases += 1
        numbers = "n" if case.has_numbers else None
        items, units = [], {}
        for index, unit in enumerate(case.units):
            who = self.name(f"unit {index}")
            own = [
                Event(self.scene.start_ms + ms, self.name(name), number if numbers else None, value)
                for ms, name, number, value in unit
            ]
            units[who] = own
            for event in own:
                sent = {"attempt": who, "n": event.number, "plan": event.value}
                more = {name: value for name, value in sent.items() if value is not None}
                at_s = (event.at_ms - self.scene.start_ms) / 1000
                items.append(self.scene.item(at_s, event.name, who, **more))
        for first in range(0, len(items), 100):
            self.scene.track(items[first : first + 100])
        steps = [[self.name(name) for name in step] for step in case.steps]
        definition: Json = {
            "conversionWindow": {"value": WINDOW_S // 60, "unit": "minute"},
            "sequenceProperty": numbers,
            "breakdownProperties": ["plan"],
        }
        if case.rule == "any order":
            definition["order"] = "any"
        if case.of_attempts:
            definition |= {"countingUnit": "attempt", "attemptProperty": "attempt"}
        rows = [
            {"type": "Event", "value": first}
            | ({"or": [{"type": "Event", "value": other} for other in others]} if others else {})
            for first, *others in steps
        ]
        if case.rule == "strict":
            rows[1:] = [{**row, "strict": True} for row in rows[1:]]
        if case.rule == "excluded":
            rows.insert(1, {"type": "Event", "value": self.name("X"), "exclude": True})
        start_ms, end_ms = (
            (None, None)
            if case.period_s is None
            else (self.scene.start_ms + 1000 * second for second in case.period_s)
        )
        question = ToolQuery(
            steps,
            WINDOW_S * 1000,
            start_ms,
            end_ms,
            excluded={1: [self.name("X")]} if case.rule == "excluded" else {},
            strict=case.rule == "strict",
            any_order=case.rule == "any order",
            of_attempts=case.of_attempts,
            has_numbers=case.has_numbers,
        )
        return self.scene.funnel(*rows, **definition), question, units


COUNTS: Mapping[tuple[str, str], Callable[[ToolQuery, Sequence[Event]], Result]] = {
    **{(tool, ""): count for tool, count in TOOLS.items()},
    ("windowfunnel", "seconds"): partial(window_funnel, unit_ms=1000),
    **{
        ("windowfunnel", ",".join(modes)): lambda question, own, modes=modes: window_funnel(
            question, own, *modes
        )
        for modes in MODES[1:]
    },
    ("amplitude", "millisecond"): partial(amplitude, grain_ms=1),
    ("mixpanel", "optimized"): partial(mixpanel, optimized=True),
}
"""The second program, by tool and mode."""


@pytest.mark.slow("runs many random examples")
@pytest.mark.parametrize(("tool", "mode"), COUNTS)
def test_the_service_counts_like_the_second_program(scene: Scene, tool: str, mode: str) -> None:
    stage = Stage(scene)

    @example_settings(EXAMPLES, f"{tool} {mode}")
    @given(case=cases)
    def agree(case: Case) -> None:
        funnel, question, units = stage.perform(case)
        if tool == "mixpanel" and question.has_shared_events:
            return
        period = query_of_period(scene, case)
        modes = {"mode": mode} if mode else {}
        report = scene.results(funnel, countLike=tool, **modes, **period)
        ours = {who: own_result(question, own) or NOTHING for who, own in units.items()}
        theirs = {who: COUNTS[tool, mode](question, own) for who, own in units.items()}
        assert_counts(report, question, ours, theirs)
        if not mode:
            assert_reasons(report["countLike"]["reasons"], question, units, tool, ours, theirs)

    agree()


@pytest.mark.slow("runs many random examples")
@pytest.mark.parametrize(
    ("tool", "rule"),
    [
        ("posthog", "excluded"),
        ("posthog", "strict"),
        ("posthog", "any order"),
        ("mixpanel", "excluded"),
        ("amplitude", "strict"),
        ("amplitude", "any order"),
    ],
)
def test_the_service_counts_a_rule_like_the_second_program(
    scene: Scene, tool: str, rule: str
) -> None:
    stage = Stage(scene)

    @example_settings(EXAMPLES, f"{tool} {rule}")
    @given(case=cases_of(rule))
    def agree(case: Case) -> None:
        funnel, question, units = stage.perform(case)
        period = query_of_period(scene, case)
        report = scene.results(funnel, countLike=tool, **period)
        ours = {who: own_result(question, own) or NOTHING for who, own in units.items()}
        theirs = {who: TOOLS[tool](question, own) for who, own in units.items()}
        assert_counts(report, question, ours, theirs)

    agree()


@pytest.mark.slow("runs many random examples")
@pytest.mark.parametrize(("tool", "mode"), COUNTS)
def test_trends_count_like_the_second_program(scene: Scene, tool: str, mode: str) -> None:
    stage = Stage(scene, before_hour_s=45)

    @example_settings(EXAMPLES, f"trend {tool} {mode}")
    @given(case=cases)
    def agree(case: Case) -> None:
        funnel, question, units = stage.perform(case)
        if tool == "mixpanel" and question.has_shared_events:
            return
        query = {"countLike": tool, "interval": "hour"} | ({"mode": mode} if mode else {})
        query |= query_of_period(scene, case)
        for bucket in scene.report(funnel, "trend", **query)["data"]:
            span = parse_time(bucket["from"]), parse_time(bucket["to"])
            own = replace(question, span=span)
            ours = {who: own_result(own, each) or NOTHING for who, each in units.items()}
            theirs = {who: COUNTS[tool, mode](own, each) for who, each in units.items()}
            assert_figures(bucket["countLike"], own, ours, theirs)
            assert bucket["completed"] == bucket["countLike"]["completedHere"]
            if not mode:
                reasons = bucket["countLike"]["reasons"]
                assert_reasons(reasons, own, units, tool, ours, theirs)

    agree()


@pytest.mark.slow("runs many random examples")
@pytest.mark.parametrize(
    ("tool", "mode"),
    [("posthog", ""), ("amplitude", ""), ("mixpanel", ""), ("mixpanel", "optimized")],
)
def test_comparisons_count_like_the_second_program(scene: Scene, tool: str, mode: str) -> None:
    stage = Stage(scene)
    more = {"optimized": True} if mode else {}

    @example_settings(max(1, example_count(100) // VISITORS), f"compare {tool} {mode}")
    @given(case=cases_with_values)
    def agree(case: Case) -> None:
        funnel, question, units = stage.perform(case)
        query = {"countLike": tool, "property": "plan"} | ({"mode": mode} if mode else {})
        query |= query_of_period(scene, case)
        if not scene.results(funnel, **query_of_period(scene, case))["aggregate"]["entered"]:
            return
        record = scene.report(funnel, "compare", **query)
        ours = {who: own_by_value(question, own) for who, own in units.items()}
        theirs = {who: by_value(tool, question, own, **more) for who, own in units.items()}
        shown = [cohort["cohort"]["plan"] for cohort in record["cohorts"]]
        for cohort in record["cohorts"]:
            value = cohort["cohort"]["plan"]
            assert_figures(cohort["countLike"], question, part(ours, value), part(theirs, value))
            assert cohort["completed"] == cohort["countLike"]["completedHere"]
        others = record["countLike"]["others"]["entered"]
        assert others == sum(value not in shown for own in theirs.values() for value in own)

    agree()


@pytest.mark.slow("runs many random examples")
def test_periods_count_like_the_second_program(scene: Scene) -> None:
    stage = Stage(scene)

    @example_settings(max(1, example_count(300) // VISITORS), "periods")
    @given(case=cases, kind=st.sampled_from(list(COUNTS)))
    def agree(case: Case, kind: tuple[str, str]) -> None:
        funnel, question, units = stage.perform(case)
        tool, mode = kind
        if tool == "mixpanel" and question.has_shared_events:
            return
        query = {"countLike": tool, **({"mode": mode} if mode else {}), **scene.period(50, 100)}
        query |= {"compareStartAt": scene.at(0), "compareEndAt": scene.at(50)}
        record = scene.report(funnel, "periods", **query)
        for part, start_s in ((record, 50), (record["earlier"], 0)):
            start_ms = scene.start_ms + start_s * 1000
            own = replace(question, start_ms=start_ms, end_ms=start_ms + 50_000)
            ours = {who: own_result(own, each) or NOTHING for who, each in units.items()}
            theirs = {who: COUNTS[kind](own, each) for who, each in units.items()}
            assert_counts(part, own, ours, theirs)

    agree()


def query_of_period(scene: Scene, case: Case) -> Json:
    return {} if case.period_s is None else scene.period(*case.period_s)


def part(
    units: Mapping[str, Mapping[str | None, Result]], value: str | None
) -> Mapping[str, Result]:
    """The results of all units in one cohort."""
    return {who: results.get(value, NOTHING) for who, results in units.items()}


def assert_counts(
    report: Json, question: ToolQuery, ours: Mapping[str, Result], theirs: Mapping[str, Result]
) -> None:
    assert_figures(report["countLike"], question, ours, theirs)
    assert report["aggregate"]["completed"] == report["countLike"]["completedHere"]


def assert_figures(
    counted: Json, question: ToolQuery, ours: Mapping[str, Result], theirs: Mapping[str, Result]
) -> None:
    last = len(question.steps)
    expected = {
        "entered": sum(each.reached > 0 for each in theirs.values()),
        "completed": sum(each.reached == last for each in theirs.values()),
        "enteredHere": sum(each.reached > 0 for each in ours.values()),
        "completedHere": sum(each.reached == last for each in ours.values()),
        "onlyThere": sum(theirs[who].reached == last > ours[who].reached for who in ours),
        "onlyHere": sum(ours[who].reached == last > theirs[who].reached for who in ours),
        "sameUnits": sum(
            ours[who].decision == theirs[who].decision != NOTHING.decision for who in ours
        ),
    }
    assert {name: counted[name] for name in expected} == expected
    gap = counted["onlyThere"] - counted["onlyHere"]
    assert counted["completedHere"] + gap == counted["completed"]
    for name in ("onlyThere", "onlyHere"):
        assert sum(reason[name] for reason in counted["reasons"]) == counted[name]


def assert_reasons(
    counted: Sequence[Json],
    question: ToolQuery,
    units: Mapping[str, Sequence[Event]],
    tool: str,
    ours: Mapping[str, Result],
    theirs: Mapping[str, Result],
) -> None:
    last, expected = len(question.steps), dict[str, tuple[int, int, int]]()
    for who, own in units.items():
        sets = reasons(question, own, tool)
        if sets is not None:
            name = "-or-".join("-and-".join(each) for each in sets) or "several"
            differing, there, here = expected.get(name, (0, 0, 0))
            there += theirs[who].reached == last > ours[who].reached
            here += ours[who].reached == last > theirs[who].reached
            expected[name] = (differing + 1, there, here)
    figures = ("units", "onlyThere", "onlyHere")
    assert {
        reason["reason"]: tuple(reason[name] for name in figures) for reason in counted
    } == expected


@pytest.mark.parametrize("modes", MODES, ids=lambda modes: " ".join(modes) or "no mode")
def test_the_second_program_counts_like_the_engines_function(
    warehouse: Warehouse, modes: tuple[str, ...]
) -> None:
    random = Random(" ".join(modes))
    for steps in STEPS:
        units = [
            [(random.randrange(8), random.choice("ABCX")) for _ in range(random.randint(1, 6))]
            for _ in range(200)
        ]
        rows = ",".join(
            f"({who},{at},'{name}')" for who, own in enumerate(units) for at, name in own
        )
        conditions = ",".join(f"position('{''.join(step)}', name) > 0" for step in steps)
        quoted = "".join(f", '{mode}'" for mode in modes)
        sql = (
            f"SELECT who, windowFunnel(4{quoted})(at, {conditions})"  # noqa: S608
            f" FROM values('who UInt32, at UInt64, name String', {rows})"
            " GROUP BY who ORDER BY who"
        )
        counted = [level for _, level in warehouse.query(sql)[1]]
        question = ToolQuery(steps, window_ms=4)
        own = [[Event(at, name) for at, name in unit] for unit in units]
        assert [window_funnel(question, unit, *modes).reached for unit in own] == counted
