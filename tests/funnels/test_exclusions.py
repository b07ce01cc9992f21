"""Exclusion rows and strict steps: each rule with a story, and every place that shows them."""

import pytest

from penstock.funnels.units.trace import chosen_path
from tests.cases import cases, full_except
from tests.conftest import ShiftedClock
from tests.funnels.answers import faults
from tests.funnels.definitions import resolved
from tests.funnels.scenario import (
    ATTEMPTS,
    HOUR_S,
    Json,
    Scene,
    by_cohort,
    column,
    counts,
    pick,
    rows_of,
    step,
    where,
)
from tests.funnels.stories import evaluate_story

pytestmark = pytest.mark.usefixtures("warehouse")

EXCLUDED = step("X", exclude=True)
STRICT = step("B", strict=True)
ALONE = step("B", strict="all")
GROUP = step("B", "C", mode="all_of")

STORIES = [
    # rows, story, steps reached, whether the attempt is excluded, unordered ties
    (["A", EXCLUDED, "B"], "0/A 10/B", 2, False, 0, "no exclusion"),
    (["A", EXCLUDED, "B"], "0/A 5/X 10/B", 1, True, 0, "nothing later counts"),
    (["A", EXCLUDED, "B"], "0/X 5/A 10/B", 2, False, 0, "before the entry"),
    (["A", EXCLUDED, "B"], "0/A 10/B 20/X", 2, False, 0, "after the next step"),
    (["A", EXCLUDED, "B"], "0/A 3601/X", 1, False, 0, "after the window"),
    (["A", EXCLUDED, "B"], "0/A 3600/X", 1, True, 0, "at the window's end"),
    (["A", "B", EXCLUDED, "C"], "0/A 5/X 10/B 20/C", 3, False, 0, "another gap"),
    (["A", "B", EXCLUDED, "C"], "0/A 10/B 15/X 20/C", 2, True, 0, "its own gap"),
    (["A", EXCLUDED, "B"], "0/A 10/X 10/B", 1, True, 1, "tied with the next step"),
    (["A", EXCLUDED, "B"], "0/A 10/B 10/X", 1, True, 1, "tied, whatever the order of arrival"),
    (["A", EXCLUDED, "B"], "0/A 10/B(1) 10/X(2)", 2, False, 0, "proven to be later"),
    (["A", EXCLUDED, "B"], "0/A 10/B(2) 10/X(1)", 1, True, 0, "proven to be earlier"),
    (["A", EXCLUDED, "B"], "0/A 10/B(1) 10/X(1)", 1, True, 1, "equal numbers prove nothing"),
    (["A", EXCLUDED, "B"], "0/A 10/B(1) 10/X", 1, True, 1, "a number on one only"),
    (["A", EXCLUDED, "B"], "0/A 0/X 10/B", 2, False, 1, "tied with the step before"),
    (["A", EXCLUDED, "B"], "0/X 0/A 10/B", 2, False, 1, "tied, and read before it"),
    (["A", EXCLUDED, "B"], "0/A(1) 0/X(2) 10/B", 1, True, 0, "numbers prove it"),
    (["A", EXCLUDED, "B"], "0/A(5) 5/X(4) 10/B(6)", 2, False, 0, "a stale number excludes nothing"),
    (["A", step("B", exclude=True), step("B")], "0/A 10/B", 1, True, 0, "matches both"),
    (["A", step("X", "Y", exclude=True), "B"], "0/A 5/Y 10/B", 1, True, 0, "an `or` row"),
    (["A", STRICT], "0/A 10/B", 2, False, 0, "strict"),
    (["A", STRICT], "0/A 5/A 10/B", 1, True, 0, "strict: the first step again"),
    (["A", STRICT, "C"], "0/A 5/C 10/B 20/C", 1, True, 0, "strict: a later step"),
    (["A", STRICT], "0/A 5/Z 10/B", 2, False, 0, "strict: an event of no step"),
    (["A", "B", step("C", strict=True)], "0/A 5/A 10/B 20/C", 3, False, 0, "strict: its own gap"),
    (["A", STRICT], "0/A 0/A 10/B", 2, False, 1, "strict: tied with the step before"),
    (["A", STRICT], "0/A 10/A 10/B", 1, True, 1, "strict: tied with the awaited step"),
    (["A", ALONE], "0/A 9/B", 2, False, 0, "nothing else: nothing lies between"),
    (["A", ALONE], "0/A 5/Z 9/B", 1, True, 0, "nothing else: an event of no row"),
    (["A", ALONE], "0/A 5/A 9/B", 1, True, 0, "nothing else: the first step again"),
    (["A", ALONE], "0/Z 5/A 9/B 12/Z", 2, False, 0, "nothing else: before and after"),
    (["A", ALONE], "0/A 0/Z 9/B", 2, False, 1, "nothing else: tied with the step before"),
    (["A", ALONE], "0/A 9/Z 9/B", 1, True, 1, "nothing else: tied with the awaited step"),
    (["A", ALONE], "0/A(5) 5/Z(4) 9/B(6)", 2, False, 0, "nothing else: a stale number"),
    (["A", ALONE], "0/A 3601/Z", 1, False, 0, "nothing else: after the window"),
    (["A", ALONE, "C"], "0/A 5/B 9/Z 12/C", 3, False, 0, "nothing else: its own gap"),
    (["A", step("Z", diagnostic=True), ALONE], "0/A 5/Z 9/B", 1, True, 0, "a diagnostic row"),
    (["A", GROUP | {"strict": True}], "0/A 5/B 6/B 10/C", 2, False, 0, "strict: a part again"),
    (["A", EXCLUDED, GROUP], "0/A 5/B 6/X 10/C", 1, True, 0, "between the parts of a group"),
]
stories = pytest.mark.parametrize(
    ("rows", "story", "reached", "excluded", "ties"),
    [case[:5] for case in STORIES],
    ids=[case[5] for case in STORIES],
)


@stories
def test_story_in_the_reference_evaluation(
    rows: list[str | Json], story: str, reached: int, excluded: bool, ties: int
) -> None:
    report, _ = evaluate_story(story, {**ATTEMPTS, "steps": rows_of(rows)}, attempt="a1")
    assert_counted(report, reached, excluded, ties)


@stories
def test_story_in_a_trace(
    rows: list[str | Json], story: str, reached: int, excluded: bool, ties: int
) -> None:
    funnel = {**ATTEMPTS, "steps": rows_of(rows)}
    _, events = evaluate_story(story, funnel, attempt="a1")
    path = chosen_path(resolved(funnel), events, None, None)
    assert path is not None
    assert (path.reached, path.excluded_by is not None, path.ties) == (reached, excluded, ties)


FUNNELS: list[list[str | Json]] = []
for case in STORIES:
    if case[0] not in FUNNELS:
        FUNNELS.append(case[0])


@pytest.mark.parametrize(
    "rows",
    full_except(
        [["A", EXCLUDED, "B"], ["A", STRICT], STORIES[-1][0]],
        FUNNELS,
        "one more statement for each story",
    ),
)
def test_stories_over_the_api(
    scene: Scene, subtests: pytest.Subtests, rows: list[str | Json]
) -> None:
    stories = {name: case for *case, name in STORIES if case[0] == rows}
    for name, (_, story, *_) in stories.items():
        scene.story(story, attempt=name)
    funnel = scene.attempts(*rows)
    units = scene.units(funnel)
    for name, (_, _, reached, excluded, ties) in stories.items():
        with subtests.test(name):
            unit = units[name]
            assert (unit["reached"], unit["outcome"] == "excluded") == (reached, excluded)
            assert unit["unorderedTies"] == ties
    report = scene.results(funnel)
    for row in report["aggregate"]["steps"]:
        own = [case for case in stories.values() if case[2] >= row["step"]]
        assert row["count"] == len(own)
        assert row["excluded"] == sum(case[3] and case[2] == row["step"] for case in own)
    assert report["aggregate"]["excluded"] == sum(case[3] for case in stories.values())
    assert report["dataQuality"]["unorderedTies"] == sum(case[4] for case in stories.values())


def assert_counted(report: Json, reached: int, excluded: bool, ties: int) -> None:
    total = report["aggregate"]
    numbers = column(total["steps"], "step")
    assert counts(report) == [int(number <= reached) for number in numbers]
    assert total["excluded"] == excluded
    assert column(total["steps"], "excluded") == [excluded and at == reached for at in numbers]
    assert report["dataQuality"]["unorderedTies"] == ties


def test_filters_decide_which_events_violate_a_strict_step(scene: Scene) -> None:
    """An event that matches the awaited step's name but not its filter belongs to no step."""
    scene.story("0/A 5/B", attempt="basic", plan="basic")
    scene.story("10/B", attempt="basic", plan="pro")
    scene.story("0/A 5/A 10/B", attempt="again", plan="pro")
    strict = step("B", strict=True, filters=[where("plan", value="pro")])
    total = scene.results(scene.attempts("A", strict))["aggregate"]
    assert pick(total, "entered", "completed", "excluded") == (2, 1, 1)


def test_eligible_units_are_the_denominator_of_every_rate(scene: Scene) -> None:
    for attempt in range(10):
        scene.story("0/A 5/X" if attempt % 2 else "0/A 10/B", attempt=f"a{attempt}")
    total = scene.results(scene.attempts("A", EXCLUDED, "B"))["aggregate"]
    assert pick(total, "entered", "excluded", "droppedOff") == (10, 5, 0)
    assert pick(total, "conversionRate", "settled", "settledRate") == (1.0, 5, 1.0)
    assert column(total["steps"], "conversionFromStart") == [1.0, 1.0]
    assert column(total["steps"], "conversionFromPrevious") == [None, 1.0]
    assert column(total["steps"], "excluded") == [5, 0]


def test_a_funnel_whose_units_are_all_excluded_has_no_rate(scene: Scene) -> None:
    scene.story("0/A 5/X", plan="pro")
    funnel = scene.attempts("A", EXCLUDED, "B", breakdownProperties=["plan"])
    report = scene.results(funnel, sort="conversionRate")
    assert report["aggregate"]["conversionRate"] is None
    assert report["cohorts"]["data"][0]["conversionRate"] is None
    compared = scene.report(funnel, "compare", property="plan")["cohorts"][0]
    assert pick(compared, "excluded", "conversionRate", "rateInterval") == (1, None, None)


def test_an_excluded_unit_is_never_pending(scene: Scene, clock: ShiftedClock) -> None:
    today = Scene(scene.tenant, clock, ago_s=60)
    today.story("0/A 5/X", attempt="excluded")
    today.story("0/A", attempt="waits")
    report = today.results(today.attempts("A", EXCLUDED, "B"))
    total = report["aggregate"]
    assert pick(total, "pending", "excluded", "settled") == (1, 1, 0)
    assert total["finalRate"] == {"lower": 0.0, "upper": 1.0}
    assert report["coverage"]["openWindows"] == 1


def test_a_visitor_counts_by_a_run_that_is_not_excluded(scene: Scene) -> None:
    """Among runs that lead equally far; a run that leads further counts first."""
    scene.story("0/A 5/X 4000/A", visitor="ann", attempt=None)
    scene.story("0/A 10/B 15/X 4000/A", visitor="bob", attempt=None)
    rows = ["A", EXCLUDED, "B", EXCLUDED, "C"]
    funnel = scene.funnel(*rows, conversionWindowSeconds=HOUR_S)
    units = scene.units(funnel)
    assert pick(units["ann"], "outcome", "entryAt") == ("droppedOff", scene.at(4000))
    excluded = ("excluded", 2, scene.at(15))
    assert pick(units["bob"], "outcome", "reached", "excludedAt") == excluded


def test_diagnostic_rows_of_an_excluded_unit_end_at_the_exclusion(scene: Scene) -> None:
    scene.story("0/A 3/D 5/X 8/D")
    funnel = scene.attempts("A", step("D", diagnostic=True), EXCLUDED, "B")
    [row] = scene.results(funnel)["aggregate"]["diagnostics"]
    assert pick(row, "units", "events", "where") == (1, 1, "between steps 1 and 2")


def test_lists_trends_next_events_and_exports_give_excluded_units(scene: Scene) -> None:
    scene.story("0/A 5/X 8/D", attempt="excluded", plan="pro")
    scene.story("0/A 10/B", attempt="completed", plan="pro")
    scene.story("0/A 9/D", attempt="lost", plan="basic")
    funnel = scene.attempts("A", EXCLUDED, "B", breakdownProperties=["plan"])
    [excluded] = scene.report(funnel, "units", outcome="excluded", step=1)["data"]
    assert pick(excluded, "unit", "excludedAt") == ("excluded", scene.at(5))
    assert scene.names(funnel, outcome="droppedOff") == ["lost"]
    buckets = scene.report(funnel, "trend", interval="month")["data"]
    [bucket] = [bucket for bucket in buckets if bucket["entered"]]
    assert pick(bucket, "excluded", "droppedOff", "conversionRate") == (1, 1, 0.5)
    following = scene.report(funnel, "next", step=1)
    assert (following["stopped"], following["data"][0]["name"]) == (1, "D")
    assert scene.report(funnel, "next", step=1, outcome="excluded")["stopped"] == 1
    assert by_cohort(scene.results(funnel), "plan", figure="excluded") == {"pro": 1, "basic": 0}
    first = scene.results(funnel, sort="excluded")["cohorts"]["data"][0]
    assert first["cohort"] == {"plan": "pro"}
    total, *_ = scene.table(funnel, "export")
    assert pick(total, "excluded", "step_1_excluded", "step_2_excluded") == ("1", "1", "0")
    assert pick(total, "step_1_dropped_off", "conversion_rate") == ("1", "0.5")


@pytest.mark.parametrize(
    ("rows", "story", "decisions", "sentence"),
    [
        (
            ["A", EXCLUDED, "B"],
            "0/A 5/X 10/B",
            "exclusion noMatch",
            "Excludes the attempt after step 1: it matches the exclusion row after step 1.",
        ),
        (
            ["A", STRICT],
            "0/A 5/A 10/B",
            "exclusion noMatch",
            "Excludes the attempt after step 1: step 2 is strict, and the event belongs to another",
        ),
        (
            ["A", ALONE],
            "0/A 5/Z 10/B",
            "exclusion noMatch",
            "Excludes the attempt after step 1: step 2 is strict, and no other event may occur",
        ),
        (
            ["A", EXCLUDED, "B"],
            "0/A 0/X 10/B",
            "unorderedTie accepted",
            "Excludes nothing: it has the same timestamp as the event that completed step 1",
        ),
        (
            ["A", EXCLUDED, "B"],
            "0/A 5/B 5/X",
            "unorderedTie exclusion",
            "Not accepted for step 2: it has the same timestamp as the event that excluded the un",
        ),
        (
            ["A", EXCLUDED, "B"],
            "0/A 5/X 10/B",
            "exclusion noMatch",
            "Matches step 2, but the attempt was already excluded.",
        ),
    ],
)
def test_a_trace_says_what_excluded_the_unit(
    scene: Scene, rows: list[str | Json], story: str, decisions: str, sentence: str
) -> None:
    scene.story(story)
    trace = scene.trace(scene.attempts(*rows), "a1")
    assert column(trace["events"], "decision") == ["entry", *decisions.split()]
    assert any(event["explanation"].startswith(sentence) for event in trace["events"])
    if "exclusion" in decisions:
        assert trace["outcome"] == "excluded"
        assert trace["excludedAt"] == scene.at(5)
        assert trace["summary"].endswith(f"was excluded after step 1 of 2 at {scene.at(5)}.")


@cases(
    ("rows", "fault"),
    [
        ([EXCLUDED, "A", "B"], "steps[0].exclude misplaced"),
        (["A", "B", EXCLUDED], "steps[2].exclude misplaced"),
        (["A", EXCLUDED, step("Y", exclude=True), "B"], "steps[2].exclude repeated"),
        (["A", step("X", exclude=True, diagnostic=True), "B"], "steps[1].exclude not_allowed"),
        (["A", step("X", "Y", exclude=True, mode="all_of"), "B"], "steps[1].mode not_allowed"),
        ([step("A", strict=True), "B"], "steps[0].strict not_allowed"),
        ([step("A", strict="all"), "B"], "steps[0].strict not_allowed"),
        (["A", step("B", strict="some")], "steps[1].strict not_one_of"),
        (["A", step("X", diagnostic=True, strict="all"), "B"], "steps[1].strict not_allowed"),
        (["A", step("X", exclude=True, strict=True), "B"], "steps[1].strict not_allowed"),
        (["A", step("X", diagnostic=True, strict=True), "B"], "steps[1].strict not_allowed"),
        (["A", EXCLUDED], "steps too_few_steps"),
    ],
)
def test_a_misplaced_exclusion_is_refused(scene: Scene, rows: list[str | Json], fault: str) -> None:
    answer = scene.client.post("/api/funnels", json={"name": "F", "steps": rows_of(rows)})
    assert fault in faults(answer)


def test_a_record_carries_only_the_fields_that_were_set(scene: Scene) -> None:
    funnel = scene.funnel("A", EXCLUDED, STRICT)
    plain, exclusion, strict = scene.definition(funnel)["steps"]
    assert not plain.keys() & {"exclude", "strict"}
    assert (exclusion["exclude"], strict["strict"]) == (True, True)
    assert "strict" not in exclusion
    assert "exclude" not in strict


def test_revisions_name_exclusions(scene: Scene) -> None:
    funnel = scene.funnel("A", "B")
    body = {"name": "Scenario", "steps": rows_of(["A", EXCLUDED, STRICT])}
    scene.client.put(f"/api/funnels/{funnel}", json=body)
    assert scene.changes(funnel) == [
        "Exclusion row after step 1 added: Event X",
        "Step 2 is now strict",
    ]
    body["steps"] = rows_of(["A", EXCLUDED, ALONE])
    scene.client.put(f"/api/funnels/{funnel}", json=body)
    assert scene.changes(funnel) == ["Step 2 is now strict: nothing else may lie before it"]
