"""Every run of a visitor (`repeat`), by the reference evaluation, traces, engine and API."""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from random import Random
from typing import Any

import pytest

from penstock.funnels.definitions.model import Definition
from penstock.funnels.queries.engine import ENGINE_SETTINGS
from penstock.funnels.queries.profiles import read_profile
from penstock.funnels.statements.counted_units import CountedUnits
from penstock.funnels.statements.query import QueryParams
from penstock.funnels.statements.units import UnitConditions, UnitOrder, units_page
from penstock.funnels.units.trace import funnel_paths
from penstock.warehouse.client import Warehouse
from tests.cases import full_except
from tests.funnels import reference
from tests.funnels.answers import code, faults
from tests.funnels.definitions import resolved
from tests.funnels.reference.report import Units, read_units
from tests.funnels.reference.runs import all_runs, coarse_times, seen_by
from tests.funnels.reports import evaluate
from tests.funnels.scenario import (
    DAY_S,
    HOUR_S,
    Json,
    Scene,
    by_cohort,
    column,
    counts,
    outcome,
    pick,
    rows_of,
    step,
    where,
)
from tests.funnels.seed import store_case
from tests.funnels.stories import evaluate_story
from tests.funnels.traces import matched_event

GROUP = step("A", "B", mode="all_of")
EXCLUDED, STRICT = step("X", exclude=True), step("B", strict=True)
STORIES = [
    # rows, story, steps that each run reached
    (["A", "B"], "0/A 10/B 20/A 30/B 40/A 50/B", [2, 2, 2], "three purchases are three"),
    (["A", "B"], "0/A 10/B 20/A", [2, 1], "the last run is in progress"),
    (["A", "B"], "0/A 10/A 20/B 30/B", [2], "events between belong to the open run"),
    (["A", "B"], "0/A 3600/A 3601/A 3602/B", [1, 2], "a run ends with its window, which is inside"),
    (["A", "B"], "0/A 3601/B 3602/A 3603/B", [1, 2], "an event between two runs"),
    (["A", "B"], "0/B 10/A 20/B", [2], "an event before the first run"),
    (["A", "B"], "0/A 10/B 10/A 20/B", [2], "a tie with the end opens no run"),
    (["A", "B"], "0/A(1) 10/B(2) 10/A(3) 20/B", [2, 2], "numbers prove an entry after the end"),
    (["A", "B"], "0/A(5) 10/B(6) 20/A(1) 30/B(2)", [2, 2], "numbers begin anew with each run"),
    (["A", "A"], "0/A 1/A 2/A 3/A 4/A", [2, 2, 1], "an event serves one run"),
    ([GROUP, "C"], "0/A 1/B 2/C 3/B 4/A 5/C", [2, 2], "a group in each run"),
    ([GROUP, "C"], "0/A 1/B 2/A 3/C 4/B 5/C", [2], "a part before the end fills no later group"),
    ([GROUP, "C"], "0/A 1/B 2/C 2/A 3/B 4/A", [2, 1], "a part tied with the end fills none"),
    ([GROUP, "C"], "0/A 1/B 2/C(1) 2/A(2) 2/B 3/B", [2, 1], "numbers prove a part after the end"),
    (["A", EXCLUDED, "B"], "0/A 1/X 2/B 3/A 4/B", [1, 2], "an exclusion ends a run"),
    (["A", STRICT, "C"], "0/A 1/A 2/A 3/B 4/C", [1, 3], "an event that excludes opens no run"),
]
stories = pytest.mark.parametrize(
    ("rows", "story", "reached"), [case[:3] for case in STORIES], ids=[case[3] for case in STORIES]
)


def funnel_of(rows: Sequence[str | Json], **more: Any) -> Json:
    return {
        "sequenceProperty": "n",
        "conversionWindowSeconds": HOUR_S,
        "repeat": True,
        "steps": rows_of(rows),
        **more,
    }


@stories
def test_story_in_the_reference_evaluation_and_in_traces(
    rows: list[str | Json], story: str, reached: list[int]
) -> None:
    funnel = funnel_of(rows)
    report, events = evaluate_story(story, funnel)
    assert counts(report) == counts_of(reached, len(report["aggregate"]["steps"]))
    assert [path.reached for path in funnel_paths(resolved(funnel), events)] == reached


ROWS: list[list[str | Json]] = []
for case in STORIES:
    if case[0] not in ROWS:
        ROWS.append(case[0])


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("rows", ROWS)
def test_stories_over_the_api(
    scene: Scene, subtests: pytest.Subtests, rows: list[str | Json]
) -> None:
    stories = {name: (story, reached) for own, story, reached, name in STORIES if own == rows}
    visitors = [f"v{number}" for number in range(len(stories))]
    for visitor, (story, _) in zip(visitors, stories.values(), strict=True):
        scene.story(story, visitor=visitor, attempt=None)
    definition = funnel_of(rows)
    funnel = scene.funnel(*definition.pop("steps"), **definition)
    runs = sorted(scene.units(funnel).items(), key=lambda item: item[1]["entryAt"])
    for visitor, (name, (_, reached)) in zip(visitors, stories.items(), strict=True):
        with subtests.test(name):
            own = [unit["reached"] for run, unit in runs if run.startswith(f"{visitor}@")]
            assert own == reached
    report = scene.results(funnel)
    every = [step for _, reached in stories.values() for step in reached]
    assert counts(report) == counts_of(every, len(report["aggregate"]["steps"]))


def counts_of(reached: Sequence[int], steps: int) -> list[int]:
    return [sum(each >= number for each in reached) for number in range(1, steps + 1)]


# -- Many visitors at once -----------------------------------------------------------------------

FUNNELS = {
    "plain": funnel_of(["A", "B", "C"]),
    "without numbers": funnel_of(["A", "B"], sequenceProperty=None),
    "an option of step 1": funnel_of([step("A", "C"), "B"], sequenceProperty=None),
    "one event for both steps": funnel_of(["A", step("A", "B")]),
    "a group first": funnel_of([GROUP, "C"]),
    "a large group first": funnel_of([step("A", "B", "C", mode="all_of"), "A"]),
    "a group first, without numbers": funnel_of([GROUP, "C"], sequenceProperty=None),
    "a group later": funnel_of(["A", step("B", "C", mode="all_of")]),
    "an exclusion": funnel_of(["A", step("C", exclude=True), "B"]),
    "an exclusion after a group": funnel_of([GROUP, step("C", exclude=True), "A"]),
    "strict": funnel_of(["A", step("B", strict=True), "C"]),
    "step order": funnel_of(["A", "B", "C"], equalTimes="inStepOrder"),
    "step order and a group": funnel_of([GROUP, "C"], equalTimes="inStepOrder"),
    "a diagnostic row": funnel_of(["A", step("C", diagnostic=True), "B"], sequenceProperty=None),
}
PURCHASE = {"type": "Transaction", "value": "A"}
FUNNELS["whole seconds"] = funnel_of([PURCHASE, {"type": "Transaction", "value": "B"}])
FUNNELS["whole seconds and a group"] = funnel_of(
    [
        {**PURCHASE, "mode": "all_of", "or": [{"type": "Transaction", "value": "B"}]},
        {"type": "Transaction", "value": "C"},
    ]
)
VISITORS = 300
START_MS = 1_704_164_640_000


@pytest.mark.parametrize(
    "name",
    full_except(
        ("plain", "a group first", "an exclusion"),
        FUNNELS,
        "more funnels over many visitors, as in the property tests",
    ),
)
def test_runs_of_many_visitors_agree_with_the_reference_evaluation(
    warehouse: Warehouse, name: str
) -> None:
    funnel = FUNNELS[name]
    events = random_events(Random(name), kind="transaction" if "seconds" in name else "event")
    history, mark = store_case(warehouse, reference.History(tuple(events)), inserts=1)
    websites, at_ms = (mark + "shop",), START_MS + 100 * HOUR_S * 1000
    units = read_units(history, funnel, websites, at_ms)
    definition = resolved(funnel)
    assert_traces(definition, units)
    params = QueryParams(websites, (mark + "people",), None, None, at_ms)  # type: ignore[arg-type]
    counted = CountedUnits(definition, params, read_profile(warehouse, params))
    statement = units_page(counted, UnitConditions(), UnitOrder(), None, 100_000)
    settings = {**ENGINE_SETTINGS, **statement.settings}
    names, rows = warehouse.query(statement.sql, statement.parameters, settings)
    listed = Counter(
        (
            row["entry_id"], row["entry_ts"], row["reached"], tuple(row["done"]), row["skips"],
            row["ties"], row["invalid"], bool(row["tied"]), row["excluded_after"], row["assumed"],
            row["coarse"], tuple(row["seen"]), row["cut"],
        )
        for row in (dict(zip(names, values, strict=True)) for values in rows)
    )  # fmt: skip
    expected = Counter(expected_rows(units))
    assert listed == expected
    assert len(expected) > VISITORS


@pytest.mark.full("thousands of events of one visitor; test_large_units.py tries ten thousand")
@pytest.mark.parametrize("number", [None, "n"], ids=["time decides", "numbers"])
@pytest.mark.slow("follows 666 runs of 3,000 events")
def test_a_report_and_a_trace_stop_at_the_same_run_of_a_very_large_visitor(
    warehouse: Warehouse, number: str | None
) -> None:
    events = tuple(
        reference.Event(f"evt_{at:04}", "shop", "event", "AB"[at % 2], START_MS + at, "v", "people")
        for at in range(3_000)
    )
    history, mark = store_case(warehouse, reference.History(events), inserts=1)
    websites, at_ms = (mark + "shop",), START_MS + HOUR_S * 2000
    funnel = funnel_of(["A", "B"], sequenceProperty=number)
    params = QueryParams(websites, (mark + "people",), None, None, at_ms)  # type: ignore[arg-type]
    report = evaluate(warehouse, resolved(funnel), params)
    assert report["aggregate"]["completed"] == report["dataQuality"]["unitsOverLimit"] == 666
    [own] = read_units(history, funnel, websites, at_ms).by_unit.values()
    assert len(list(funnel_paths(resolved(funnel), list(map(matched_event, own))))) == 666


def random_events(random: Random, kind: str) -> list[reference.Event]:
    """Return the events of visitors who repeat few steps in little time, often at equal times."""
    events: list[reference.Event] = []
    for visitor in range(VISITORS):
        pauses = random.choices((0, 1, 500, 1000, 3_600_000, 3_600_001), (6, 2, 1, 3, 1, 1), k=12)
        for at_ms in accumulate(pauses, initial=START_MS):
            number = random.choice((None, None, 1, 2, 3, 4, 5, "x"))
            properties: Json = {} if number is None else {"n": number}
            stripe = kind == "transaction" and random.random() < 0.4
            if stripe:
                at_ms -= at_ms % 1000
                properties["provider"] = "stripe"
            events.append(
                reference.Event(
                    f"evt_{random.randrange(10**9):09}_{len(events)}",
                    "shop",
                    kind,
                    random.choice("AABBC"),
                    at_ms,
                    f"v{visitor}",
                    "people",
                    source="provider" if stripe else "browser",
                    properties=properties,
                )
            )
    return events


def expected_rows(units: Units) -> list[tuple[Any, ...]]:
    funnel, rows = units.funnel, []
    for (visitor, entry_id), run in units.counted(None, None).items():
        own = units.own((visitor, entry_id), run)
        diagnostics = [row for row in funnel.rows if row.is_diagnostic]
        rows.append(
            (
                entry_id, run.entry_ms, run.reached, tuple(run.done_ms), len(run.skipped),
                len(run.tied), sum(it.is_invalid and it.is_required(funnel) for it in own),
                run.by_agreement,
                -1 if run.excluded_by is None else run.excluded_by.last_ms - run.entry_ms,
                len(run.assumed), coarse_times(funnel, own),
                tuple(len(seen_by(funnel, units.by_unit[visitor], run, it)) for it in diagnostics),
                0,
            )
        )  # fmt: skip
    return rows


def assert_traces(definition: Definition, units: Units) -> None:
    for events in units.by_unit.values():
        in_order = sorted(map(matched_event, events), key=lambda event: event.order)
        assert [
            (path.entry.event_id, path.done_ms, path.skips, path.ties)
            for path in funnel_paths(definition, in_order)
        ] == [
            (run.entry.id, run.done_ms, len({event.id for event in run.skipped}), len(run.tied))
            for run in all_runs(units.funnel, events)
        ]


# -- The API -------------------------------------------------------------------------------------


def shop_funnel(scene: Scene, **more: Any) -> str:
    rows = more.pop("rows", ("A", "B"))
    return scene.funnel(*rows, repeat=True, conversionWindowSeconds=HOUR_S, **more)


def test_repeat_is_a_field_of_visitor_funnels_with_a_window(scene: Scene) -> None:
    body: Json = {"name": "F", "steps": rows_of("AB"), "conversionWindowSeconds": HOUR_S}
    created = scene.client.post("/api/funnels", json={**body, "repeat": True}).json()
    assert created["repeat"] is True
    path = f"/api/funnels/{created['id']}"
    assert "repeat" not in scene.client.put(path, json={**body, "repeat": False}).json()
    assert scene.changes(created["id"]) == ["Counts each visitor once"]
    assert scene.funnel("A", "B", repeat=True, conversionWindow={"value": 30, "unit": "minute"})


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({}, "window_required"),
        ({"conversionWindowSeconds": None}, "window_required"),
        ({"countingUnit": "attempt", "attemptProperty": "a"}, "not_allowed"),
    ],
    ids=["no window", "an unlimited window", "attempts"],
)
def test_repeat_is_refused_where_runs_cannot_end_or_always_count(
    scene: Scene, more: Json, code: str
) -> None:
    body = {"name": "F", "steps": rows_of("AB"), "repeat": True, **more}
    answer = scene.client.post("/api/funnels", json=body)
    assert faults(answer) == [f"repeat {code}"]


@pytest.mark.usefixtures("warehouse")
def test_each_run_is_a_unit_with_a_name_a_trace_and_an_outcome(scene: Scene) -> None:
    scene.story("0/A 10/B 20/x 30/A 3700/B 3800/A 3810/B", attempt=None)
    funnel = shop_funnel(scene)
    report = scene.results(funnel)
    assert report["repeat"] is True
    assert outcome(report["aggregate"]) == (3, 2, 0, 1)
    listed = scene.report(funnel, "units")["data"]
    assert column(listed, "entryAt") == [scene.at(it) for it in (3800, 30, 0)]
    assert column(listed, "outcome") == ["completed", "droppedOff", "completed"]
    names = column(listed, "unit")
    assert len(set(names)) == 3
    for unit in listed:
        trace = scene.trace(funnel, unit["unit"])
        assert trace["unit"] == unit["unit"]
        [entry] = [it for it in trace["events"] if it["decision"] == "entry"]
        assert unit["unit"] == f"ann@{entry['eventId']}"
        same = ("outcome", "reached", "entryAt")
        assert pick(trace, *same, "selected") == (*pick(unit, *same), True)
    last = scene.trace(funnel, "ann")
    assert last["unit"] == names[0]  # a visitor's ID alone stands for the last run
    assert column(scene.trace(funnel, names[1])["events"], "explanation") == [
        "Matches step 1, but it comes before the entry of this run.",
        "Matches step 2, but it comes before the entry of this run.",
        "Matches no step.",
        f"Completes step 1: the entry. The window lasts until {scene.at(3630)}, inclusive.",
        f"Matches step 2, but comes after the window, which ended at {scene.at(3630)}.",
        "Matches step 1, but it comes after the window of this run.",
        f"Matches step 2, but comes after the window, which ended at {scene.at(3630)}.",
    ]


@pytest.mark.usefixtures("warehouse")
def test_an_unknown_run_is_404(scene: Scene) -> None:
    scene.story("0/A 10/B", attempt=None)
    funnel = shop_funnel(scene)
    step_2 = scene.trace(funnel, "ann")["events"][1]["eventId"]
    for unit in (f"ann@{step_2}", "ann@evt_1", f"bob@{step_2}", "bob"):
        answer = scene.client.get(f"/api/funnels/{funnel}/units/{unit}")
        assert code(answer, 404) == "unit_not_found"


@pytest.mark.usefixtures("warehouse")
def test_an_event_is_explained_by_the_run_that_it_belongs_to(scene: Scene) -> None:
    scene.story("0/A 10/A 20/B 30/B 40/A", attempt=None)
    funnel = shop_funnel(scene)
    events = scene.trace(funnel, "ann")["events"]
    explained = [scene.report(funnel, "explain", eventId=it["eventId"]) for it in events]
    assert column(explained, "explanation") == [
        f"Completes step 1: the entry. The window lasts until {scene.at(HOUR_S)}, inclusive.",
        "Matches step 1, but a run is open; step 2 was next.",
        "Accepted: completes step 2.",
        "Matches step 2, but the run was already completed.",
        f"Completes step 1: the entry. The window lasts until {scene.at(HOUR_S + 40)}, inclusive.",
    ]
    first, second = f"ann@{events[0]['eventId']}", f"ann@{events[4]['eventId']}"
    assert column(explained, "unit") == [first] * 4 + [second]
    assert column(explained, "counts") == [True, False, True, False, True]


@pytest.mark.usefixtures("warehouse")
def test_a_merge_of_visitors_changes_their_runs(scene: Scene) -> None:
    scene.story("0/A", visitor="phone", attempt=None)
    scene.story("5/A 10/B 20/A", visitor="laptop", attempt=None)
    funnel = shop_funnel(scene)
    assert scene.counts(funnel) == [3, 1]
    scene.identify("u-1", "laptop", "phone")
    assert scene.counts(funnel) == [2, 1]
    assert {name.split("@")[0] for name in scene.names(funnel)} == {"laptop"}


@pytest.mark.slow("the engine analyses nine statements")
def test_the_period_and_filters_choose_runs_by_their_own_entry(scene: Scene) -> None:
    scene.story("0/A", attempt=None, plan="basic")
    scene.story("1800/A", attempt=None, plan="pro")
    scene.story("1900/B 2000/A 2100/B", attempt=None, plan="pro")
    funnel = shop_funnel(scene, breakdownProperties=["plan"])
    assert scene.counts(funnel) == [2, 2]
    later = scene.period(1800, DAY_S)
    assert scene.counts(funnel, **later) == [1, 1]  # the event at 1800 belongs to the run from 0
    plan = [where("plan", value="pro")]
    assert scene.counts(funnel, filters=plan) == [1, 1]
    assert by_cohort(scene.results(funnel), "plan") == {"basic": 1, "pro": 1}
    unit = scene.names(funnel, filters=plan)[0]
    assert scene.trace(funnel, unit, filters=plan)["selected"] is True
    first = scene.names(funnel)[1]
    assert scene.trace(funnel, first, filters=plan)["selected"] is False


@pytest.mark.usefixtures("warehouse")
def test_a_trend_of_runs_adds_up_to_the_report(scene: Scene) -> None:
    scene.story("0/A 10/B 100/A 110/B", attempt=None)
    scene.story(f"{DAY_S}/A {DAY_S + 10}/B {2 * DAY_S}/A", attempt=None)
    funnel = shop_funnel(scene)
    period = scene.period(0, 3 * DAY_S)
    trend = scene.report(funnel, "trend", interval="day", **period)
    assert trend["note"] is None
    report = scene.results(funnel, **period)["aggregate"]
    for name in ("entered", "completed"):
        assert sum(bucket[name] for bucket in trend["data"]) == report[name]
    assert (report["entered"], report["completed"]) == (4, 3)
    assert scene.report(funnel, "timing")["overall"]["units"] == 3


@pytest.mark.slow("the engine analyses five statements")
def test_next_events_flows_and_drivers_count_each_run(scene: Scene) -> None:
    scene.story("0/x 10/A 20/y 3000/x 3800/A 3810/y 8000/A 8005/z 8010/B", attempt=None)
    funnel = shop_funnel(scene)
    following = scene.report(funnel, "next", step=1)
    assert (following["stopped"], following["silent"]) == (2, 0)
    assert [(it["name"], it["units"]) for it in following["data"]] == [("y", 2), ("x", 1)]
    before = scene.report(funnel, "flows", where="before")
    assert (before["units"], before["data"][0]["name"], before["data"][0]["units"]) == (3, "x", 2)
    between = scene.report(funnel, "flows", where="between", step=1)
    assert (between["units"], between["data"][0]["name"]) == (1, "z")
    drivers = scene.report(funnel, "drivers", step=1)
    assert (drivers["atRisk"], drivers["lost"]) == (3, 2)


@pytest.mark.usefixtures("warehouse")
def test_the_data_quality_of_a_run_is_that_of_its_own_events(scene: Scene) -> None:
    for time, name, number in ((0, "A", 1), (10, "B", "x"), (20, "A", 1), (30, "B", 2)):
        scene.send_event(time, name, n=number)
    funnel = shop_funnel(scene, sequenceProperty="n")
    quality = scene.results(funnel)["dataQuality"]
    assert (quality["invalidSequenceValues"], quality["unitsWithOrderingIssues"]) == (1, 1)
    listed = scene.report(funnel, "units")["data"]
    assert column(listed, "invalidSequenceValues") == [0, 1]


@pytest.mark.slow("the engine analyses six statements")
def test_the_list_of_runs_has_activity_and_a_file(scene: Scene) -> None:
    scene.story("0/A 10/B 20/A 30/x", attempt=None)
    scene.story("5/A 100/x", visitor="bob", attempt=None)
    funnel = shop_funnel(scene)
    listed = scene.report(funnel, "units", sort="lastActivity", order="asc")["data"]
    assert column(listed, "lastActivityAt") == [scene.at(it) for it in (30, 30, 100)]
    answer = scene.request(funnel, "export/units", format="csv")
    assert "runs" in answer.headers["content-disposition"]
    rows = scene.table(funnel, "export/units")
    assert {row["unit"] for row in rows} == {unit["unit"] for unit in listed}


@pytest.mark.slow("the engine analyses several statements for a verdict")
def test_exports_and_the_verdict_count_runs(scene: Scene) -> None:
    scene.story("0/A 10/B 20/A 30/B 40/A", attempt=None)
    funnel = shop_funnel(scene)
    [total, *_] = scene.table(funnel, "export")
    assert pick(total, "entered", "completed", "dropped_off") == ("3", "2", "1")
    assert "visitor" not in str(scene.report(funnel, "verdict")["sentences"])


@pytest.mark.usefixtures("warehouse")
def test_coverage_notes_that_runs_shift_where_earlier_events_were_removed(scene: Scene) -> None:
    scene.story("0/A 10/B", attempt=None)
    scene.story(f"{DAY_S}/A {DAY_S + 10}/B", attempt=None)
    period = scene.period(DAY_S, 2 * DAY_S)
    funnel = shop_funnel(scene)
    assert "runs_shift" not in scene.results(funnel, **period)["coverage"]["noteCodes"]
    scene.delete(**{"from": scene.at(-10), "to": scene.at(100)})
    coverage = scene.results(funnel, **period)["coverage"]
    assert (coverage["complete"], coverage["noteCodes"]) == (False, ["runs_shift"])
    assert coverage["notes"] == [
        "Earlier events were removed, so runs may begin at other events than before: each begins "
        "after the end of the one before it."
    ]
    once = scene.funnel("A", "B", conversionWindowSeconds=HOUR_S)
    assert scene.results(once, **period)["coverage"]["noteCodes"] == []
