"""The value `*` of an Event: any event of this type."""

import pytest

from tests.funnels.scenario import Scene, step

pytestmark = pytest.mark.usefixtures("warehouse")

PRO = [{"property": "plan", "operator": "equals", "value": "pro"}]


def test_any_event_matches_every_name_of_its_type_and_keeps_its_filters(scene: Scene) -> None:
    scene.story("0/A 10/C", attempt="any", plan="pro")
    scene.story("0/A 10/D", attempt="basic", plan="basic")
    scene.story("0/A", attempt="viewed", plan="pro")
    view = {**scene.item(10, "", attempt="viewed", plan="pro"), "type": "screenview", "screen": "S"}
    del view["name"]
    scene.track([view])
    assert scene.counts(scene.attempts("A", "*")) == [3, 2]
    assert scene.counts(scene.attempts("A", step("*", filters=PRO))) == [3, 1]


def test_a_goal_can_be_any_event(scene: Scene) -> None:
    scene.story("0/A 10/C", attempt="one", plan="pro")
    match = {"type": "Event", "value": "*", "filters": PRO}
    answer = scene.client.post("/api/goals", json={"name": "Anything", "match": match})
    assert answer.status_code == 201
    goal = {"type": "Goal", "value": "Anything"}
    assert scene.counts(scene.attempts("A", goal)) == [1, 1]
