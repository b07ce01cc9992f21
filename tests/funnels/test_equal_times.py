"""Equal times in step order (`equalTimes`), by the reference evaluation, the trace and the API."""

import pytest

from penstock.funnels.units.trace import chosen_path
from tests.funnels.answers import faults
from tests.funnels.definitions import resolved
from tests.funnels.scenario import HOUR_S, Json, Scene, counts, pick, rows_of, step
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
    assert note.startswith("Most of the 4 visitors that did not complete have events at equal")
    assert note.endswith("(equalTimes: inStepOrder).")
    assert notes(equalTimes="inStepOrder") == []
    [note] = notes(countingUnit="attempt", attemptProperty="attempt")
    assert note.endswith("sequence property (sequenceProperty).")
    for number in range(6):
        scene.story("0/A", visitor=f"other-{number}", attempt=f"other-{number}")
    assert notes() == [], "most of them fail for another reason"
