"""People in lists of units, files and traces: by user ID or a trait of the workspace's choice."""

from typing import Any

import httpx
import pytest

from tests.funnels.scenario import Json, Scene, column, pick
from tests.tenant import Tenant

pytestmark = pytest.mark.usefixtures("warehouse")

PEOPLE = {"u-1": {"email": "ann@example.com"}, "u-2": {"email": " "}, "u-3": {"email": 7}}


@pytest.fixture
def people(scene: Scene) -> Scene:
    """Four visitors: three of users, of whom one has a merged visitor, and one without a user."""
    for number, (user, traits) in enumerate(PEOPLE.items()):
        scene.story(f"{number}/A", visitor=f"v-{user}", attempt=f"a-{user}")
        scene.identify(user, f"v-{user}", traits=traits)
    scene.identify("u-1", "v-u-1", "phone")
    scene.story("9/A", visitor="nobody", attempt="a-nobody")
    return scene


def show_by(tenant: Tenant, trait: str | None) -> None:
    answer = tenant.client.patch("/api/settings/workspace", json={"personTrait": trait})
    assert answer.status_code == 200, answer.text
    assert answer.json()["personTrait"] == trait


def named(rows: list[Json]) -> dict[str, Any]:
    return {row["unit"]: pick(row, "userId", "person") for row in rows}


IDS = {"u-1": ("u-1", "u-1"), "u-2": ("u-2", "u-2"), "u-3": ("u-3", "u-3")}
TRAITS = IDS | {"u-1": ("u-1", "ann@example.com"), "u-3": ("u-3", "7")}


def test_units_have_the_user_and_the_name_that_the_workspace_chose(
    people: Scene, workspace: Tenant
) -> None:
    visitors, attempts = people.funnel("A", "B"), people.attempts("A", "B")
    runs = people.funnel("A", "B", conversionWindowSeconds=3600, repeat=True)
    sessions = people.attempts(
        "A", "B", attemptProperty=None, attemptProperties=["attempt", "$visitor"]
    )
    for trait, expected in ((None, IDS), ("email", TRAITS), (None, IDS)):
        show_by(workspace, trait)
        for funnel_id in (visitors, attempts, runs, sessions):
            rows = people.report(funnel_id, "units", order="asc")["data"]
            names = [pick(row, "userId", "person") for row in rows]
            assert names == [*expected.values(), (None, None)]


def test_an_attempt_belongs_to_the_user_of_a_merged_visitor(people: Scene) -> None:
    people.story("20/A", visitor="phone", attempt="a-phone")
    rows = people.report(people.attempts("A", "B"), "units")["data"]
    assert named(rows)["a-phone"] == ("u-1", "u-1")


def test_a_file_of_units_has_columns_for_users_and_names(people: Scene, workspace: Tenant) -> None:
    show_by(workspace, "email")
    rows = people.table(people.attempts("A", "B"), "export/units", order="asc")
    assert column(rows, "user_id") == ["u-1", "u-2", "u-3", ""]
    assert column(rows, "person") == ["ann@example.com", "u-2", "7", ""]


def test_a_trace_names_its_person(people: Scene, workspace: Tenant) -> None:
    show_by(workspace, "email")
    for funnel_id, unit in (
        (people.funnel("A", "B"), "phone"),
        (people.attempts("A", "B"), "a-u-1"),
    ):
        trace = people.trace(funnel_id, unit)
        assert pick(trace, "userId", "person") == ("u-1", "ann@example.com")
    assert pick(people.trace(funnel_id, "a-nobody"), "userId", "person") == (None, None)


def test_visitors_are_named_in_their_list(people: Scene, workspace: Tenant) -> None:
    show_by(workspace, "email")
    rows = people.client.get("/api/visitors", params={"days": 400}).json()["data"]
    assert sorted(row["person"] or "" for row in rows) == ["", "7", "ann@example.com", "u-2"]
    assert people.client.get("/api/visitors/phone").json()["person"] == "ann@example.com"
    [row] = people.client.get("/api/visitors", params={"search": "u-1"}).json()["data"]
    assert row["person"] == "ann@example.com"


def test_a_key_for_one_website_gets_no_trait_as_a_name(people: Scene, workspace: Tenant) -> None:
    show_by(workspace, "email")
    funnel_id, website = people.attempts("A", "B"), {"websiteId": workspace.website_id}
    body = {"name": "One website", **website}
    key = workspace.browser.post("/api/settings/api-keys", json=body).json()["key"]
    limited = {"Authorization": f"Bearer {key}"}

    def names(path: str) -> Any:
        answer: httpx.Response = people.client.get(path, params=website, headers=limited)
        assert answer.status_code == 200, answer.text
        return answer.json()

    rows = names(f"/api/funnels/{funnel_id}/units")["data"]
    assert set(column(rows, "person")) == {"u-1", "u-2", "u-3", None}
    assert names(f"/api/funnels/{funnel_id}/units/a-u-1")["person"] == "u-1"
    assert names("/api/visitors/phone")["person"] == "u-1"
