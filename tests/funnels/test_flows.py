"""Flows: paths of events before the entry, between two steps, and after a loss."""

from typing import Any

import pytest

from tests.conftest import ShiftedClock
from tests.funnels.answers import fields
from tests.funnels.scenario import HOUR_S, Json, Scene

pytestmark = pytest.mark.usefixtures("warehouse")


def read_flows(scene: Scene, funnel_id: str, **query: Any) -> Json:
    return scene.report(funnel_id, "flows", **query)


def tree(record: Json) -> dict[str, Any]:
    """Number of units and the following events, by name."""
    branches = record["data"] if "data" in record else record["next"]
    return {branch["name"]: (branch["units"], tree(branch)) for branch in branches}


def test_paths_after_a_loss_are_three_events_deep(scene: Scene) -> None:
    scene.story("0/A 10/x 20/y 30/z 40/w", attempt="a1")
    scene.story("0/A 10/x 20/z", attempt="a2")
    scene.story("0/A 10/y", attempt="a3")
    scene.story("0/A", attempt="a4")
    scene.story("0/A 10/x 20/B 30/y", attempt="a5")
    record = read_flows(scene, scene.attempts("A", "B"), step=1)
    assert (record["where"], record["step"]) == ("after", 1)
    assert (record["units"], record["ended"], record["others"]) == (4, 1, 0)
    assert tree(record) == {"x": (2, {"y": (1, {"z": (1, {})}), "z": (1, {})}), "y": (1, {})}
    [x, y] = record["data"]
    assert (x["share"], x["ended"], y["ended"]) == (0.5, 0, 1)
    assert x["next"][0]["next"][0]["ended"] == 0  # w follows


def test_paths_between_two_steps_end_before_the_next(scene: Scene) -> None:
    scene.story("0/A 10/x 20/B 30/y 40/z 50/C 60/w", attempt="a1")
    scene.story("0/A 20/B 50/C", attempt="a2")
    scene.story("0/A 20/B 30/y", attempt="a3")
    record = read_flows(scene, scene.attempts("A", "B", "C"), where="between", step=2)
    assert (record["units"], record["ended"]) == (2, 1)
    assert tree(record) == {"y": (1, {"z": (1, {})})}


def test_paths_between_two_steps_may_pass_other_steps(scene: Scene) -> None:
    scene.story("0/A 10/x 20/B 30/y 40/C 50/z", attempt="a1")
    scene.story("0/A 20/B 30/C", attempt="a2")
    scene.story("0/A 10/x 20/B", attempt="a3")
    funnel_id = scene.attempts("A", "B", "C")
    record = read_flows(scene, funnel_id, where="between", step=1, toStep=3)
    assert (record["step"], record["toStep"], record["units"]) == (1, 3, 2)
    assert tree(record) == {"x": (1, {"B": (1, {"y": (1, {})})}), "B": (1, {})}
    next_step = read_flows(scene, funnel_id, where="between", step=1)
    assert (next_step["toStep"], next_step["units"]) == (2, 3)
    assert read_flows(scene, funnel_id, step=1)["toStep"] is None
    for query in (
        {"toStep": 2},
        {"where": "between", "toStep": 1},
        {"where": "between", "toStep": 4},
    ):
        assert fields(scene.request(funnel_id, "flows", **query)) == ["toStep"]


def test_paths_before_the_entry_go_back_one_window(scene: Scene) -> None:
    scene.story(f"0/old {HOUR_S}/x {HOUR_S + 10}/y {HOUR_S + 20}/A", attempt=None, visitor="ann")
    scene.story(f"{HOUR_S}/A", attempt=None, visitor="bob")
    funnel_id = scene.funnel("A", "B", conversionWindowSeconds=HOUR_S)
    record = read_flows(scene, funnel_id, where="before")
    assert (record["units"], record["ended"], record["step"]) == (2, 1, None)
    assert tree(record) == {"y": (1, {"x": (1, {})})}


def test_events_of_the_attempts_visitors_count_if_asked(scene: Scene) -> None:
    scene.story("0/x", attempt=None)
    scene.story("10/A", attempt="a1")
    funnel_id = scene.attempts("A", "B")
    assert tree(read_flows(scene, funnel_id, where="before")) == {}
    assert tree(read_flows(scene, funnel_id, where="before", of="visitor")) == {"x": (1, {})}


def test_only_the_five_most_frequent_events_are_listed(scene: Scene) -> None:
    for number in range(7):
        scene.story(f"0/A 10/e{number}", attempt=f"a{number}")
    scene.story("0/A 10/e6", attempt="b")
    record = read_flows(scene, scene.attempts("A", "B"))
    assert list(tree(record)) == ["e6", "e0", "e1", "e2", "e3"]
    assert (record["units"], record["ended"], record["others"]) == (8, 0, 2)


def test_cohort_and_outcome_limit_the_units(scene: Scene, clock: ShiftedClock) -> None:
    scene.story("0/A 10/x", attempt="a1", plan="pro")
    scene.story("0/A 10/y", attempt="a2", plan="basic")
    funnel_id = scene.attempts("A", "B", breakdownProperties=["plan"])
    assert tree(read_flows(scene, funnel_id, cohort='{"plan": "pro"}')) == {"x": (1, {})}
    scene.start_ms = clock() - 60_000
    scene.story("0/A 10/z", attempt="a3", plan="pro")
    assert read_flows(scene, funnel_id)["units"] == 2


@pytest.mark.parametrize(
    ("query", "field"), [({"step": 2}, "step"), ({"where": "here"}, "where"), ({"of": "x"}, "of")]
)
def test_a_wrong_parameter_is_refused(scene: Scene, query: Json, field: str) -> None:
    answer = scene.request(scene.attempts("A", "B"), "flows", **query)
    assert fields(answer) == [field]
