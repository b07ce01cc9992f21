"""Equal times in step order (`equalTimes`), by the reference evaluation, the trace and the API."""

import pytest

from penstock.funnels.units.trace import chosen_path
from tests.conftest import ShiftedClock
from tests.funnels import reference
from tests.funnels.definitions import resolved
from tests.funnels.reference.report import read_units
from tests.funnels.scenario import DAY_S, HOUR_S, Json, Scene, step
from tests.funnels.traces import matched_event
from tests.tenant import Tenant

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


def funnel_of(rows: list[str | Json]) -> Json:
    return {
        "sequenceProperty": "n",
        "conversionWindowSeconds": HOUR_S,
        "equalTimes": "inStepOrder",
        "steps": [step(row) if isinstance(row, str) else row for row in rows],
    }


@pytest.fixture
def scene(workspace: Tenant, clock: ShiftedClock) -> Scene:
    return Scene(workspace, clock)


@stories
def test_story_in_the_reference_evaluation_and_in_a_trace(
    rows: list[str | Json], story: str, reached: int, assumed: int, ties: int
) -> None:
    events = []
    for index, text in enumerate(story.split()):
        time, _, item = text.partition("/")
        properties = {"n": int(item[2:-1])} if len(item) > 1 else {}
        event = reference.Event(
            f"e{index}", "w", "event", item[0], int(time) * 1000, "ann", "s", properties=properties
        )
        events.append(event)
    history, funnel = reference.History(tuple(events)), funnel_of(rows)
    report = reference.evaluate(history, funnel, website_ids=["w"], evaluated_at_ms=DAY_S * 1000)
    assert_counted(report, reached, assumed, ties)
    [own] = read_units(history, funnel, ["w"], DAY_S * 1000).by_unit.values()
    in_order = sorted(map(matched_event, own), key=lambda event: event.order)
    path = chosen_path(resolved(funnel), in_order, None, None)
    assert path is not None
    assert (path.reached, len(path.assumed), path.ties) == (reached, assumed, ties)


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("number", [1, 2, 7, 10, 11])
def test_story_over_the_api(scene: Scene, number: int) -> None:
    rows, story, reached, assumed, ties, _ = STORIES[number]
    scene.story(story, attempt=None)
    definition = funnel_of(rows)
    report = scene.results(scene.funnel(*definition.pop("steps"), **definition))
    assert_counted(report, reached, assumed, ties)


def assert_counted(report: Json, reached: int, assumed: int, ties: int) -> None:
    counts = [row["count"] for row in report["aggregate"]["steps"]]
    assert counts == [1] * reached + [0] * (len(counts) - reached)
    quality = report["dataQuality"]
    assert (quality["assumedOrder"], quality["unorderedTies"]) == (assumed, ties)


@pytest.mark.usefixtures("warehouse")
def test_lists_and_traces_say_that_the_order_is_assumed(scene: Scene) -> None:
    scene.story("0/A 0/B", visitor="ann", attempt=None)
    scene.story("0/A 1/B", visitor="bob", attempt=None)
    definition = funnel_of(["A", "B"])
    funnel = scene.funnel(*definition.pop("steps"), **definition)
    path = f"/api/funnels/{funnel}/units"
    [unit] = scene.client.get(path, params={"quality": "assumedOrder"}).json()["data"]
    assert (unit["unit"], unit["assumedOrder"]) == ("ann", 1)
    last = scene.client.get(f"{path}/ann").json()["events"][-1]
    assert last["explanation"] == (
        "Accepted: completes step 2. Its order is assumed: equal times count in the order of the "
        "steps."
    )


def test_equal_times_is_a_field_of_visitor_funnels(scene: Scene) -> None:
    body = {"name": "F", "steps": [step("A"), step("B")], "equalTimes": "inStepOrder"}
    created = scene.client.post("/api/funnels", json=body).json()
    assert created["equalTimes"] == "inStepOrder"
    body["equalTimes"] = "proven"
    replaced = scene.client.put(f"/api/funnels/{created['id']}", json=body).json()
    assert "equalTimes" not in replaced
    latest = scene.client.get(f"/api/funnels/{created['id']}/revisions").json()["data"][0]
    assert latest["changes"] == ["Events with equal times now prove no order"]
    attempts = {"countingUnit": "attempt", "attemptProperty": "a", "equalTimes": "inStepOrder"}
    answer = scene.client.post("/api/funnels", json={**body, **attempts})
    [fault] = answer.json()["errors"]
    assert (answer.status_code, fault["field"], fault["code"]) == (
        422,
        "equalTimes",
        "not_allowed",
    )
