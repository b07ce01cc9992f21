"""A stored definition that current rules reject causes a 409 that names the filter."""

from collections.abc import Iterator

import pytest
from sqlalchemy import update

from penstock.app import Services
from penstock.metadb.tables import funnel_revisions, funnels, goals
from tests.funnels.answers import code, faults, fields
from tests.funnels.scenario import Json, Scene, column, step, where

pytestmark = pytest.mark.usefixtures("warehouse")


BEFORE = where("at", "before", "2026-05-01T12:00:00+05:75")
UNREADABLE = {
    "an offset of 75 minutes": (BEFORE, "value not_a_time"),
    "sixteen digits": (where("at", "before", "1" * 16), "value not_a_time"),
    "no number": (where("at", "less_than", "inf"), "value bad_number"),
    "a huge number": (where("at", "less_than", "1e999"), "value not_finite"),
    "a range of texts": (where("at", "between", '["1", "5"]'), "value bad_range"),
    "a range upside down": (where("at", "not_between", "[5, 1]"), "value bad_range"),
    "no list": (where("at", "in", "pro"), "value bad_list"),
    "nested lists": (where("at", "not_in", "[[1]]"), "value bad_list"),
    "a broken regex": (where("at", "matches_regex", "(?<=a)b"), "value bad_regex"),
    "half a character": (where("at", "equals", "\ud83d"), "value control_character"),
    "an unknown operator": ({**BEFORE, "operator": "sounds_like"}, "operator not_one_of"),
    "an unknown field": (where("$planet", "is_set", ""), "property unknown_builtin"),
}
REPORT_PATHS = (
    "results",
    "export?format=csv",
    "units",
    "units/a1",
    "explain?eventId=x",
    "compare?property=plan",
    "trend",
    "timing",
    "next?step=1",
)


@pytest.fixture
def funnel_id(scene: Scene) -> Iterator[str]:
    scene.story("0/A 10/B", plan="pro")
    return scene.attempts("A", step("B", "C"), breakdownProperties=["plan"])


def store_filter(services: Services, scene: Scene, funnel_id: str, item: Json) -> Json:
    """Put a filter into an `or` row without validation, and return the definition."""
    definition = scene.definition(funnel_id)
    del definition["name"]
    definition["steps"][1]["or"][0]["filters"] = [dict(item)]
    with services.database.write() as db:
        db.execute(update(funnels).where(funnels.c.id == funnel_id).values(definition=definition))
        mine = funnel_revisions.c.funnel_id == funnel_id
        db.execute(update(funnel_revisions).where(mine).values(definition=definition))
    return definition


@pytest.mark.parametrize(("item", "fault"), UNREADABLE.values(), ids=UNREADABLE)
def test_every_query_about_an_unreadable_filter_names_it(
    services: Services, scene: Scene, funnel_id: str, item: Json, fault: str
) -> None:
    store_filter(services, scene, funnel_id, item)
    for path in REPORT_PATHS:
        answer = scene.client.get(f"/api/funnels/{funnel_id}/{path}")
        assert code(answer, 409) == "definition_not_readable", path
        assert faults(answer, 409) == [f"steps[1].or[0].filters[0].{fault}"]
        assert fields(answer, 409)[0] in answer.json()["detail"]


def test_an_unreadable_definition_can_be_read_corrected_and_deleted(
    services: Services, scene: Scene, funnel_id: str
) -> None:
    definition = store_filter(services, scene, funnel_id, BEFORE)
    path = f"/api/funnels/{funnel_id}"
    assert scene.client.get(path).json()["steps"] == definition["steps"]
    assert column(scene.client.get("/api/funnels").json()["data"], "id") == [funnel_id]
    assert scene.client.get(f"{path}/revisions").status_code == 200
    body = {"name": "Corrected", **definition}
    renamed = scene.client.put(path, json=body)
    assert fields(renamed, 422) == ["steps[1].or[0].filters[0].value"]
    body["steps"][1]["or"][0]["filters"][0]["value"] = "2026-05-01T12:00:00+05:45"
    assert scene.client.put(path, json=body).status_code == 200
    [change] = scene.client.get(f"{path}/revisions").json()["data"][0]["changes"][1:2]
    assert "at before 2026-05-01T12:00:00+05:75" in change
    assert scene.counts(funnel_id) == [1, 1]
    earlier = scene.request(funnel_id, "results", revision=1)
    assert code(earlier, 409) == "definition_not_readable"
    assert scene.client.delete(path).status_code == 204


def test_an_unreadable_goal_is_named_by_what_uses_it_and_can_be_corrected(
    services: Services, scene: Scene
) -> None:
    match = {"type": "Event", "value": "B", "filters": []}
    goal = scene.goal("Paid", match)
    scene.story("0/A 10/B")
    steps = [step("A"), {"type": "Goal", "value": "Paid"}]
    funnel_id = scene.attempts(*steps)
    with services.database.write() as db:
        unreadable = {**match, "filters": [BEFORE]}
        db.execute(update(goals).where(goals.c.id == goal["id"]).values(match=unreadable))
    answer = scene.request(funnel_id, "results")
    assert code(answer, 409) == "definition_not_readable"
    assert faults(answer, 409) == ["steps[1].value not_a_time"]
    [fault] = answer.json()["errors"]
    assert "goal Paid" in fault["message"]
    assert "match.filters[0].value" in fault["message"]
    preview = scene.client.post("/api/funnels/preview", json={"steps": steps})
    assert code(preview, 409) == "definition_not_readable"
    group = [step("A"), step("C", mode="all_of", **{"or": [steps[1], step("D")]})]
    assert scene.client.post("/api/funnels", json={"name": "x", "steps": group}).status_code == 201
    path = f"/api/goals/{goal['id']}"
    assert scene.client.get(path).json()["match"]["filters"] == [BEFORE]
    assert scene.client.get("/api/goals").status_code == 200
    assert scene.client.patch(path, json={"match": match}).status_code == 200
    assert scene.counts(funnel_id) == [1, 1]


def test_pages_of_an_unreadable_funnel_say_what_is_wrong(
    services: Services, scene: Scene, funnel_id: str
) -> None:
    store_filter(services, scene, funnel_id, BEFORE)
    browser = scene.tenant.browser
    assert browser.get("/funnels").status_code == 200
    assert browser.get(f"/funnels/{funnel_id}/edit").status_code == 200
    row = browser.get(f"/funnels/{funnel_id}/row")
    assert (row.status_code, "steps[1].or[0].filters[0].value" in row.text) == (200, True)
    assert browser.get(f"/funnels/{funnel_id}").status_code == 200
    for page, part in (
        ("", "overview"),
        ("", "detail"),
        ("/units", "list"),
        ("/units/a1", "timeline"),
    ):
        shown = browser.get(f"/funnels/{funnel_id}{page}", headers={"HX-Target": part})
        assert (shown.status_code, "steps[1].or[0].filters[0].value" in shown.text) == (200, True)
