"""The service's counts by the rules of other tools against a second program, on random visitors.

`PENSTOCK_EXAMPLES` is the number of visitors for each tool and mode, 20 in each funnel: 60 by
default.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.warehouse.client import Warehouse
from tests.funnels.examples import example_count, example_settings
from tests.funnels.reference.other_tools import (
    NOTHING,
    TOOLS,
    Event,
    Result,
    ToolQuery,
    amplitude,
    mixpanel,
    own_result,
    reasons,
    window_funnel,
)
from tests.funnels.scenario import Json, Scene

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

Unit = Sequence[tuple[int, str, int | None]]
"""The events of a unit: time in milliseconds from the beginning, name and sequence number."""


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


def events(names: str) -> st.SearchStrategy[tuple[int, str, int | None]]:
    return st.builds(
        lambda tens, offset, name, number: (max(0, 10_000 * tens + offset), name, number),
        st.integers(0, 9),
        st.sampled_from(OFFSETS_MS),
        st.sampled_from(names),
        st.sampled_from(NUMBERS),
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


@dataclass
class Stage:
    """Sends the cases to a service, each with its own names of events and units."""

    scene: Scene
    cases: int = 0

    def __post_init__(self) -> None:
        self.scene.start_ms -= self.scene.start_ms % 1000

    def name(self, name: str) -> str:
        return f"{self.cases} {name}"

    def perform(self, case: Case) -> tuple[str, ToolQuery, Mapping[str, Sequence[Event]]]:
        """Store a case. Return its funnel, the question about it, and the events of each unit."""
        self.cases += 1
        numbers = "n" if case.has_numbers else None
        items, units = [], {}
        for index, unit in enumerate(case.units):
            who = self.name(f"unit {index}")
            own = [(ms, self.name(name), number if numbers else None) for ms, name, number in unit]
            units[who] = [Event(self.scene.start_ms + ms, name, number) for ms, name, number in own]
            for ms, name, number in own:
                more: Json = {"attempt": who} | ({} if number is None else {"n": number})
                items.append(self.scene.item(ms / 1000, name, who, **more))
        for first in range(0, len(items), 100):
            self.scene.track(items[first : first + 100])
        steps = [[self.name(name) for name in step] for step in case.steps]
        definition: Json = {
            "conversionWindow": {"value": WINDOW_S // 60, "unit": "minute"},
            "sequenceProperty": numbers,
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
        period = {} if case.period_s is None else scene.period(*case.period_s)
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
        period = {} if case.period_s is None else scene.period(*case.period_s)
        report = scene.results(funnel, countLike=tool, **period)
        ours = {who: own_result(question, own) or NOTHING for who, own in units.items()}
        theirs = {who: TOOLS[tool](question, own) for who, own in units.items()}
        assert_counts(report, question, ours, theirs)

    agree()


def assert_counts(
    report: Json, question: ToolQuery, ours: Mapping[str, Result], theirs: Mapping[str, Result]
) -> None:
    last, counted = len(question.steps), report["countLike"]
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
    assert report["aggregate"]["completed"] == counted["completedHere"]
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
