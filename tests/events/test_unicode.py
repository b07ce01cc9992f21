"""Texts that Unicode calls equal are equal: `é` as one character, and as `e` with a mark."""

import json
from urllib.parse import quote

import pytest

from tests.answers import body_of
from tests.conftest import ShiftedClock
from tests.funnels.scenario import Scene, counts, step, where
from tests.tenant import Tenant

pytestmark = pytest.mark.usefixtures("warehouse")

ONE, TWO = "caf\u00e9", "cafe\u0301"
"""The same text, as one character and as two."""


@pytest.fixture
def scene(workspace: Tenant, clock: ShiftedClock) -> Scene:
    return Scene(workspace, clock)


@pytest.mark.parametrize(("sent", "queried"), [(ONE, TWO), (TWO, ONE), (TWO, TWO)])
def test_names_keys_values_and_attempts_are_the_same_in_both_spellings(
    scene: Scene, sent: str, queried: str
) -> None:
    scene.track(
        scene.item(seconds, name, sent, **{sent: sent, "attempt": attempt})
        for seconds, name, attempt in ((0, sent, ONE), (10, "B", TWO))
    )
    paid = {**step("B"), "filters": [where(queried, "equals", queried)]}
    funnel_id = scene.attempts(step(queried), paid, breakdownProperties=[queried])
    assert counts(scene.results(funnel_id, cohort=json.dumps({queried: queried}))) == [1, 1]
    for operator in ("contains", "starts_with", "in"):
        value = json.dumps([queried]) if operator == "in" else queried
        rows = step(queried), {**step("B"), "filters": [where(queried, operator, value)]}
        assert counts(scene.results(scene.attempts(*rows))) == [1, 1]


def test_visitors_and_users_are_the_same_in_both_spellings(scene: Scene) -> None:
    for number, (visitor, user) in enumerate(((ONE, TWO), (TWO, ONE))):
        scene.track([scene.item(number, "A", visitor)])
        body = {"websiteId": scene.tenant.website_id, "visitorId": visitor, "userId": user}
        assert scene.client.post("/api/identify", json=body).status_code == 200
    assert counts(scene.results(scene.funnel("A", "A"))) == [1, 1]
    for visitor in (ONE, TWO):
        profile = body_of(scene.client.get(f"/api/visitors/{quote(visitor)}"))
        assert (profile["visitorId"], profile["userId"]) == (ONE, ONE)


def test_properties_keep_the_text_as_sent(scene: Scene) -> None:
    scene.track([scene.item(0, "A", plan=TWO)])
    [event] = body_of(scene.client.get("/api/visitors/ann/events"))["data"]
    assert event["properties"]["plan"] == TWO


def test_a_deletion_finds_the_person_in_either_spelling(scene: Scene) -> None:
    scene.track([scene.item(0, "A", ONE)])
    body = {"websiteId": scene.tenant.website_id, "visitorId": TWO}
    deletion = body_of(scene.client.post("/api/deletions", json=body), 201)
    assert deletion["visitorsRemoved"] == 1
