"""Funnels whose steps count in any order: each rule with a story, and every place that shows it."""

import pytest

from penstock.funnels.units.trace import chosen_path
from tests.cases import cases
from tests.funnels.answers import faults
from tests.funnels.definitions import resolved
from tests.funnels.scenario import (
    HOUR_S,
    Json,
    Scene,
    by_cohort,
    column,
    pick,
    rows_of,
    step,
    where,
)
from tests.funnels.stories import evaluate_story

pytestmark = pytest.mark.usefixtures("warehouse")

ANY: Json = {"order": "any", "conversionWindowSeconds": HOUR_S}
EXCLUDED = step("X", exclude=True)
PRO = step("A", filters=[where("plan", value="pro")])

STORIES = [
    # rows, story, number of steps done, rows done, whether the visitor is excluded, unordered ties
    (["A", "B"], "0/B 10/A", 2, [1, 1], False, 0, "backwards"),
    (["A", "B"], "0/A 0/B", 2, [1, 1], False, 0, "equal times"),
    (["A", "B", "C"], "0/C 5/C 9/B", 2, [0, 1, 1], False, 0, "two of three"),
    (["A", "B"], "0/A 3700/A 3800/B", 2, [1, 1], False, 0, "a later entry leads further"),
    (["A", "B"], "0/A 3600/B", 2, [1, 1], False, 0, "at the end of the window"),
    (["A", "B"], "0/A 3601/B", 1, [1, 0], False, 0, "after the window"),
    (["A", "A"], "0/A", 1, [1, 0], False, 0, "one event serves one step"),
    (["A", "A"], "0/A 5/A", 2, [1, 1], False, 0, "two events serve two steps"),
    ([step("A", "B"), "A"], "0/A 5/B", 2, [1, 1], False, 0, "an event moves to another step"),
    ([step("A", "B"), "A"], "0/B 5/A", 2, [1, 1], False, 0, "and at any time"),
    ([step("A", "B"), step("B", "C"), "C"], "0/C 5/C", 2, [0, 1, 1], False, 0, "a chain of moves"),
    (["A", "A", "B"], "0/A 5/B", 2, [1, 0, 1], False, 0, "the first of equal steps"),
    (["A", EXCLUDED, "B"], "0/B 5/X", 1, [0, 1], True, 0, "excluded"),
    (["A", EXCLUDED, "B"], "0/B 5/X 9/A", 1, [1, 0], False, 0, "a later run is not excluded"),
    (["A", EXCLUDED, "B", "C"], "0/C 2/B 5/X 9/A", 2, [0, 1, 1], True, 0, "excluded anywhere"),
    (["A", EXCLUDED, "B"], "0/B 5/A 9/X", 2, [1, 1], False, 0, "excluded after completion"),
    (["A", EXCLUDED, "B"], "0/X 5/A 9/B", 2, [1, 1], False, 0, "excluded before the entry"),
    (["A", EXCLUDED, "B"], "0/A 0/X 9/B", 2, [1, 1], False, 1, "tied with the entry"),
    (["A", EXCLUDED, "B", "C"], "0/A 5/B 9/X 9/C", 2, [1, 1, 0], True, 1, "tied with a step"),
    (["A", EXCLUDED, "B"], "0/A 5/X 10/B 20/A", 2, [1, 1], False, 0, "a later run is complete"),
]
stories = pytest.mark.parametrize(
    ("rows", "story", "reached", "done", "excluded", "ties"),
    [case[:6] for case in STORIES],
    ids=[case[6] for case in STORIES],
)


@stories
def test_story_in_the_reference_evaluation(
    rows: list[str | Json], story: str, reached: int, done: list[int], excluded: bool, ties: int
) -> None:
    report, _ = evaluate_story(story, {**ANY, "steps": rows_of(rows)})
    steps = report["aggregate"]["steps"]
    assert column(steps, "count") == [int(row["step"] <= reached) for row in steps]
    assert column(steps, "rowCount") == done
    assert report["aggregate"]["excluded"] == excluded
    assert report["dataQuality"]["unorderedTies"] == ties


@stories
def test_story_in_a_trace(
    rows: list[str | Json], story: str, reached: int, done: list[int], excluded: bool, ties: int
) -> None:
    funnel = {**ANY, "steps": rows_of(rows)}
    _, events = evaluate_story(story, funnel)
    path = chosen_path(resolved(funnel), events, None, None)
    assert path is not None
    assert (path.reached, path.excluded_by is not None, path.ties) == (reached, excluded, ties)
    assert [int(bool(options)) for options in path.options] == done


def test_stories_over_the_api(scene: Scene, subtests: pytest.Subtests) -> None:
    for rows, story, reached, done, excluded, ties, name in STORIES[8:14]:
        with subtests.test(name):
            scene.story(story, visitor=name, attempt=None, story=name)
            funnel = scene.funnel(*rows, **ANY)
            report = scene.results(funnel, filters=[where("story", value=name)])
            steps = report["aggregate"]["steps"]
            assert sum(column(steps, "count")) == reached
            assert column(steps, "rowCount") == done
            assert report["aggregate"]["excluded"] == excluded
            assert report["dataQuality"]["unorderedTies"] == ties


def test_lists_by_step_mean_at_least_and_by_option_the_step_itself(scene: Scene) -> None:
    scene.story("0/B 5/C", visitor="ann", attempt=None)
    scene.story("0/A", visitor="bob", attempt=None)
    scene.story("0/D 5/A 9/B", visitor="cas", attempt=None)
    funnel = scene.funnel(step("A", "D"), "B", "C", **ANY)
    steps = scene.results(funnel)["aggregate"]["steps"]
    assert column(steps, "count") == [3, 2, 0]
    assert column(steps, "rowCount") == [2, 2, 1]
    assert column(steps[0]["options"], "count") == [1, 1]
    assert sorted(scene.units(funnel, step=2)) == ["ann", "cas"]
    assert sorted(scene.units(funnel, step=1, option=1)) == ["cas"]
    assert sorted(scene.units(funnel, step=3, option=0)) == ["ann"]
    [total] = scene.table(funnel, "export")
    assert pick(total, "step_2_count", "step_2_row_count", "step_3_row_count") == ("2", "2", "1")
    timing = scene.report(funnel, "timing")
    assert timing["steps"][0]["units"] == 2


def test_the_entry_is_any_step_and_gives_the_cohort(scene: Scene) -> None:
    scene.story("0/B", visitor="ann", attempt=None, plan="pro")
    scene.story("9/A", visitor="ann", attempt=None, plan="free")
    scene.story("0/A 0/B", visitor="bob", attempt=None, plan="pro")
    funnel = scene.funnel("A", "B", breakdownProperties=["plan"], **ANY)
    report = scene.results(funnel)
    assert by_cohort(report, "plan", figure="completed") == {"pro": 2}
    quality = report["dataQuality"]
    assert pick(quality, "tiedEntries", "conflictingEntryValues") == (1, {"plan": 1})


def test_a_trace_says_which_step_an_event_does(scene: Scene) -> None:
    scene.story("0/B 5/B 9/A 12/C", attempt=None)
    funnel = scene.funnel("A", "B", "D", **ANY)
    trace = scene.trace(funnel, "ann")
    assert column(trace["events"], "decision") == ["entry", "noMatch", "accepted", "noMatch"]
    entry, again, accepted, _ = column(trace["events"], "explanation")
    assert entry.startswith("Does step 2, the first: the entry. The window lasts until")
    assert again == "Matches step 2, but other events do all steps that it could do."
    assert accepted == "Accepted: does step 1. 2 of 3 are done."
    assert column(trace["events"], "row") == [1, None, 0, None]


@cases(
    ("more", "fault"),
    [
        ({"rows": ["A", step("B", strict=True)]}, "steps[1].strict not_allowed"),
        ({"rows": ["A", step("B", strict="all")]}, "steps[1].strict not_allowed"),
        ({"rows": ["A", step("B", "C", mode="all_of")]}, "steps[1].mode not_allowed"),
        ({"repeat": True}, "repeat not_allowed"),
        ({"equalTimes": "inStepOrder"}, "equalTimes not_allowed"),
        ({"sequenceProperty": "n"}, "sequenceProperty not_allowed"),
        ({"order": "some"}, "order not_one_of"),
    ],
)
def test_what_needs_an_order_is_refused(scene: Scene, more: Json, fault: str) -> None:
    rows = more.get("rows", ["A", "B"])
    more = {name: value for name, value in more.items() if name != "rows"}
    body = {"name": "F", **ANY, "steps": rows_of(rows), **more}
    assert fault in faults(scene.client.post("/api/funnels", json=body))


def test_a_record_carries_the_order_only_if_it_is_any(scene: Scene) -> None:
    funnel = scene.funnel("A", step("X", "Y", mode="all_of", diagnostic=True), "B", **ANY)
    assert scene.definition(funnel)["order"] == "any"
    body = scene.definition(funnel) | {"order": "given"}
    scene.client.put(f"/api/funnels/{funnel}", json=body)
    assert "order" not in scene.definition(funnel)
    assert scene.changes(funnel) == ["Steps count in the given order"]
