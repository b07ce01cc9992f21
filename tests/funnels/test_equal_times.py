"""Equal times in step order (`equalTimes`), by the reference evaluation, the trace and the API."""

import json
import re
from itertools import permutations

import pytest

from penstock.funnels.units.trace import chosen_path
from tests.funnels.answers import faults
from tests.funnels.definitions import resolved
from tests.funnels.scenario import HOUR_S, Json, Scene, counts, pick, rows_of, step, where
from tests.funnels.stories import evaluate_story

STORIES = [
    # rows, story, steps reached, events in an assumed order, unordered ties
    (["A", "B", "C"], "0/A 0/B", 2, 1, 0, "equal times"),
    (["A", "B", "C"], "0/B 0/A", 2, 1, 0, "whatever the order of arrival"),
    (["A", "B", "C"], "0/C 0/B 0/A", 3, 2, 0, "all steps at once"),
    (["A", "B", "C"], "0/A 1/B 1/C", 3, 1, 0, "after the entry"),
    (["A", "B", "C"], "0/A 1/C 1/B", 3, 1, 0, "after the entry, the other way round"),
    (["A", "B", "C"], "0/A(1) 0/B(2)", 2, 0, 0, "numbers prove it"),
    (["A", "B", "C"], "0/A(2) 0/B(1)", 1, 0, 0, "numbers prove the other order"),
    (["A", "B", "C"], "0/A(1) 0/B(1)", 1, 0, 1, "equal numbers are a tie"),
    (["A", "B", "C"], "0/A(1) 0/B", 2, 1, 0, "a number on one only"),
    (["A", "B", "A"], "0/A 0/B", 2, 1, 0, "an event serves one step only"),
    (["A", "B", "A"], "0/A 0/B 0/A", 3, 2, 0, "another event of the first step"),
    (["A", step("X", exclude=True), "B"], "0/A 0/X 0/B", 2, 1, 1, "exclusions need proof"),
    (["A", step("B", "C", mode="all_of"), "D"], "0/C 0/A 0/B", 2, 2, 0, "a group"),
]
ARRIVALS = [
    # mode, rows, story in any order of arrival, steps reached, ties
    ("inStepOrder", ["A", step("B", "C"), "B"], "0/A 0/B 0/C", 3, 0),
    ("inStepOrder", ["A", step("B", "C"), "B"], "0/A 5/B 5/C", 3, 0),
    ("inStepOrder", ["A", "B", "B", "C"], "0/A 5/B 5/B 5/C", 4, 0),
    ("proven", ["A", step("B", "C"), "B"], "0/A 5/B 5/C", 2, 1),
    ("proven", ["A", step("B", "C"), "D"], "0/A 5/B 5/C 9/D", 3, 0),
    ("proven", [step("A", "B"), "A"], "0/A 0/B", 1, 1),
    ("proven", [step("A", "B"), "A"], "0/A 0/B 5/A", 2, 1),
    ("proven", ["A", step("B", "C", mode="all_of"), "B"], "0/A 5/B 5/B 5/C", 2, 1),
    ("inStepOrder", ["A", step("X", exclude=True), "B", "C"], "0/A 0/X 0/B 0/C", 3, 1),
]
"""Stories whose events with equal times arrive in any order."""
stories = pytest.mark.parametrize(
    ("rows", "story", "reached", "assumed", "ties"),
    [case[:5] for case in STORIES],
    ids=[case[5] for case in STORIES],
)


DEFINITION = {
    "sequenceProperty": "n",
    "conversionWindowSeconds": HOUR_S,
    "equalTimes": "inStepOrder",
}


@stories
def test_story_in_the_reference_evaluation_and_in_a_trace(
    rows: list[str | Json], story: str, reached: int, assumed: int, ties: int
) -> None:
    funnel = {**DEFINITION, "steps": rows_of(rows)}
    report, events = evaluate_story(story, funnel)
    assert_counted(report, reached, assumed, ties)
    path = chosen_path(resolved(funnel), events, None, None)
    assert path is not None
    assert (path.reached, len(path.assumed), path.ties) == (reached, assumed, ties)


@pytest.mark.parametrize(("mode", "rows", "story", "reached", "ties"), ARRIVALS)
def test_no_figure_depends_on_the_order_of_arrival(
    mode: str, rows: list[str | Json], story: str, reached: int, ties: int
) -> None:
    funnel = {**DEFINITION, "equalTimes": mode, "steps": rows_of(rows)}
    reports = []
    for events in permutations(story.split()):
        report, traced = evaluate_story(" ".join(events), funnel)
        path = chosen_path(resolved(funnel), traced, None, None)
        assert path is not None
        assert (path.reached, path.ties) == (reached, ties)
        reports.append(report)
    assert all(report == reports[0] for report in reports)
    assert reports[0]["dataQuality"]["unorderedTies"] == ties
    assert counts(reports[0])[reached - 1] == 1


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("sent", ["as told", "backwards"])
def test_events_of_one_time_count_alike_in_any_order_of_arrival_over_the_api(
    scene: Scene, sent: str
) -> None:
    for number, (mode, rows, story, reached, ties) in enumerate(ARRIVALS):
        visitor = f"v{number}"
        own = story.translate(str.maketrans({name: f"{name}{number}" for name in "ABCDX"}))
        scene.story(own, visitor=visitor, attempt=None, sent=sent)
        named = json.loads(re.sub(r'"([ABCDX])"', rf'"\g<1>{number}"', json.dumps(rows)))
        for kind in ({}, {"breakdownProperties": ["plan"]}):
            funnel = scene.funnel(*named, **{**DEFINITION, "equalTimes": mode}, **kind)
            report = scene.results(funnel)
            assert counts(report)[reached - 1] == 1, (mode, story)
            assert report["dataQuality"]["unorderedTies"] == ties, (mode, story)
            assert sum(counts(report)[reached:]) == 0


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("sent", ["as told", "backwards"])
def test_a_filter_looks_at_the_values_that_tied_entries_agree_on(scene: Scene, sent: str) -> None:
    """The plan of tied entries that disagree is missing, so only `is_not_set` keeps the unit."""
    for plan in ("pro", "free") if sent == "as told" else ("free", "pro"):
        scene.story("0/A", attempt="a1", plan=plan, country="DE")
    scene.story("9/B", attempt="a1")
    visitors = scene.funnel("A", "B", conversionWindowSeconds=HOUR_S)
    for funnel in (visitors, scene.attempts("A", "B")):
        entered = {
            operator: scene.counts(funnel, filters=json.dumps([where("plan", operator, value)]))
            for operator, value in (
                ("equals", "pro"),
                ("in", '["pro", "free"]'),
                ("is_not_set", ""),
                ("not_equals", "basic"),
            )
        }
        assert entered == {
            "equals": [0, 0],
            "in": [0, 0],
            "is_not_set": [1, 1],
            "not_equals": [1, 1],
        }
        agreed = json.dumps([where("country", "equals", "DE")])
        assert scene.counts(funnel, filters=agreed) == [1, 1]


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("sent", ["as told", "backwards"])
def test_only_events_after_the_entry_conflict_with_its_values(scene: Scene, sent: str) -> None:
    """A tied event of another step proves no later value."""
    for name, plan in (("A", "pro"), ("B", "free"))[:: 1 if sent == "as told" else -1]:
        scene.story(f"0/{name}", attempt="a1", plan=plan)
    by_plan = {"breakdownProperties": ["plan"], "conversionWindowSeconds": HOUR_S}
    for funnel in (
        scene.attempts("A", "B", **by_plan),
        scene.funnel("A", "B", equalTimes="inStepOrder", **by_plan),
    ):
        quality = scene.results(funnel)["dataQuality"]
        assert quality["conflictingEntryValues"] == {"plan": 0}


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("number", [1, 2, 7, 10, 11])
def test_story_over_the_api(scene: Scene, number: int) -> None:
    rows, story, reached, assumed, ties, _ = STORIES[number]
    scene.story(story, attempt=None)
    assert_counted(scene.results(scene.funnel(*rows, **DEFINITION)), reached, assumed, ties)


def assert_counted(report: Json, reached: int, assumed: int, ties: int) -> None:
    assert counts(report) == [int(row["step"] <= reached) for row in report["aggregate"]["steps"]]
    assert pick(report["dataQuality"], "assumedOrder", "unorderedTies") == (assumed, ties)


@pytest.mark.usefixtures("warehouse")
def test_lists_and_traces_say_that_the_order_is_assumed(scene: Scene) -> None:
    scene.story("0/A 0/B", visitor="ann", attempt=None)
    scene.story("0/A 1/B", visitor="bob", attempt=None)
    funnel = scene.funnel("A", "B", **DEFINITION)
    [(name, unit)] = scene.units(funnel, quality="assumedOrder").items()
    assert (name, unit["assumedOrder"]) == ("ann", 1)
    last = scene.trace(funnel, "ann")["events"][-1]
    assert last["explanation"] == (
        "Accepted: completes step 2. Its order is assumed: equal times count in the order of the "
        "steps."
    )


def test_equal_times_is_a_field_of_visitor_funnels(scene: Scene) -> None:
    body = {"name": "F", "steps": rows_of("AB"), "equalTimes": "inStepOrder"}
    created = scene.client.post("/api/funnels", json=body).json()
    assert created["equalTimes"] == "inStepOrder"
    body["equalTimes"] = "proven"
    replaced = scene.client.put(f"/api/funnels/{created['id']}", json=body).json()
    assert "equalTimes" not in replaced
    assert scene.changes(created["id"]) == ["Events with equal times now prove no order"]
    attempts = {"countingUnit": "attempt", "attemptProperty": "a", "equalTimes": "inStepOrder"}
    answer = scene.client.post("/api/funnels", json={**body, **attempts})
    assert faults(answer) == ["equalTimes not_allowed"]


@pytest.mark.usefixtures("warehouse")
def test_a_report_whose_units_fail_by_equal_times_names_the_way_out(scene: Scene) -> None:
    for number in range(3):
        scene.story("0/A 0/B 0/C", visitor=f"v-{number}", attempt=f"a-{number}")
    scene.story("0/A 1/B", visitor="slow", attempt="slow")

    def notes(**definition: Json) -> list[str]:
        funnel = scene.funnel("A", "B", "C", conversionWindowSeconds=HOUR_S, **definition)
        coverage = scene.results(funnel)["coverage"]
        codes = coverage["noteCodes"]
        return [
            note
            for note, code in zip(coverage["notes"], codes, strict=True)
            if code == "equal_times"
        ]

    [note] = notes()
    assert note.startswith("3 visitors of 4 have events with equal times, so their order is")
    assert note.endswith("(equalTimes: inStepOrder).")
    assert notes(equalTimes="inStepOrder") == []
    [note] = notes(countingUnit="attempt", attemptProperty="attempt")
    assert note.endswith("sequence property (sequenceProperty).")
    for number in range(26):
        scene.story("0/A", visitor=f"other-{number}", attempt=f"other-{number}")
    [note] = notes()
    assert note.startswith("3 visitors of 30 have events with equal times")
    scene.story("0/A", visitor="last", attempt="last")
    assert notes() == [], "they cannot change the rate by a tenth"
