"""Finding visitors, and what is told of one: over HTTP, after real events, identify calls, merges and deletions."""

from time import sleep
from typing import Any
from urllib.parse import quote

import pytest

from tests.tenant import Tenant


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


def send(tenant: Tenant, **event: Any) -> dict[str, Any]:
    answer = tenant.client.post("/api/v1/events", json={"websiteId": tenant.website_id, "event": "seen"} | event)
    assert answer.status_code == 202, answer.text
    return answer.json()


def identify(tenant: Tenant, visitor_id: str, user_id: str, **more: Any) -> dict[str, Any]:
    body = {"websiteId": tenant.website_id, "visitorId": visitor_id, "userId": user_id} | more
    answer = tenant.client.post("/api/identify", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def listed(tenant: Tenant, **parameters: Any) -> dict[str, Any]:
    answer = tenant.client.get("/api/visitors", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids(page: dict[str, Any]) -> list[str]:
    return [one["visitorId"] for one in page["data"]]


def visitor(tenant: Tenant, visitor_id: str, rest: str = "", **parameters: Any) -> Any:
    return tenant.client.get(f"/api/visitors/{quote(visitor_id, safe='')}{rest}", params=parameters)


def another_website(tenant: Tenant, **fields: Any) -> str:
    website_id: str = tenant.client.post("/api/settings/websites", json={"name": "Other", "kind": "web"} | fields).json()["id"]
    return website_id


def code(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


@pytest.fixture
def merged(workspace: Tenant) -> str:
    """Ann, who came with a phone and a laptop: the canonical ID is the phone's."""
    send(workspace, visitorId="phone", timestamp="2026-03-01T10:00:00Z", properties={"plan": "free"})
    identify(workspace, "phone", "ann", traits={"plan": "pro"})
    send(workspace, visitorId="laptop", timestamp="2026-03-02T10:00:00Z", country="DE")
    assert identify(workspace, "laptop", "ann")["merged"] is True
    return "phone"


def test_visitors_are_listed_the_one_active_last_first(workspace, clock):
    for name in ("a", "b", "c"):
        clock.advance(seconds=2)
        send(workspace, visitorId=name)
    clock.advance(seconds=2)
    send(workspace, visitorId="a")
    page = listed(workspace)
    assert (ids(page), page["total"]) == (["a", "c", "b"], 3)
    assert (page["data"][0]["events"], page["data"][0]["websiteId"]) == (2, workspace.website_id)
    assert page["data"][0]["firstEventAt"] < page["data"][0]["lastEventAt"]
    assert ids(listed(workspace, page=2, pageSize=2)) == ["b"]
    assert (ids(listed(workspace, page=9)), listed(workspace, page=9)["total"]) == ([], 3)


def test_a_merged_visitor_is_one_line_with_its_user(workspace, merged):
    send(workspace, visitorId="laptop")
    send(workspace, visitorId="phone")
    page = listed(workspace)
    assert ids(page) == [merged]
    assert (page["data"][0]["userId"], page["data"][0]["events"]) == ("ann", 2)


def test_the_list_is_of_the_last_days_and_a_search_of_all_times(workspace, merged):
    assert listed(workspace)["total"] == 0
    assert ids(listed(workspace, days=400)) == [merged]
    assert listed(workspace, search="phone")["data"][0]["lastEventAt"] == "2026-03-02T10:00:00.000Z"


@pytest.mark.parametrize("search", ["phone", "laptop", "ann"])
def test_a_search_finds_by_visitor_id_absorbed_id_and_user_id(workspace, merged, search):
    found = listed(workspace, search=search)
    assert (ids(found), found["total"], found["data"][0]["events"]) == ([merged], 1, 2)


@pytest.mark.parametrize("search", ["pho", "PHONE", "nobody", "%", "' OR 1=1"])
def test_a_search_is_exact(workspace, merged, search):
    assert listed(workspace, search=search)["total"] == 0


def test_one_website_lists_its_own_visitors(workspace):
    other = another_website(workspace)
    send(workspace, visitorId="here")
    send(workspace, visitorId="there", websiteId=other)
    assert ids(listed(workspace, websiteId=other)) == ["there"]
    assert sorted(ids(listed(workspace))) == ["here", "there"]
    assert listed(workspace, websiteId=other, search="here")["total"] == 0


def test_a_visitor_known_from_identify_alone_has_no_times(workspace):
    identify(workspace, "v", "ann")
    [found] = listed(workspace, search="ann")["data"]
    assert found == {"visitorId": "v", "userId": "ann", "websiteId": None, "events": 0, "firstEventAt": None, "lastEventAt": None}
    assert visitor(workspace, "v").json()["lastEvent"] is None


@pytest.mark.parametrize("asked", ["phone", "laptop"])
def test_any_id_of_a_visitor_tells_everything_about_it(workspace, merged, asked):
    told = visitor(workspace, asked).json()
    assert (told["visitorId"], told["ids"], told["events"]) == (merged, ["phone", "laptop"], 2)
    assert (told["user"]["userId"], told["user"]["traits"]) == ("ann", {"plan": "pro"})
    assert [(one["visitorId"], one["userId"]) for one in told["merges"]] == [("laptop", "ann")]
    assert (told["firstEventAt"], told["lastEventAt"]) == ("2026-03-01T10:00:00.000Z", "2026-03-02T10:00:00.000Z")
    assert (told["lastEvent"]["country"], told["lastEvent"]["visitorId"]) == ("DE", "laptop")


def test_a_timeline_has_every_field_newest_first(workspace, merged):
    page = visitor(workspace, "laptop", "/events").json()
    assert (page["total"], [one["visitorId"] for one in page["data"]]) == (2, ["laptop", "phone"])
    first = page["data"][1]
    assert (first["kind"], first["name"], first["source"], first["properties"]) == ("event", "seen", "server", {"plan": "free"})
    assert (first["occurredAt"], first["userId"], first["country"]) == ("2026-03-01T10:00:00.000Z", None, None)
    second = visitor(workspace, "laptop", "/events", page=2, pageSize=1).json()
    assert (second["total"], second["data"]) == (2, [first])


def test_a_timeline_goes_over_all_websites_that_share_their_visitors(workspace):
    shop, blog = (another_website(workspace, identityScope="all") for _ in range(2))
    send(workspace, visitorId="v", websiteId=shop)
    send(workspace, visitorId="v", websiteId=blog)
    told = visitor(workspace, "v", "/events", websiteId=shop).json()["data"]
    assert {one["websiteId"] for one in told} == {shop, blog}


def test_one_id_on_websites_of_their_own_is_several_visitors(workspace):
    other = another_website(workspace)
    send(workspace, visitorId="v")
    send(workspace, visitorId="v", websiteId=other)
    assert listed(workspace, search="v")["total"] == 2
    for rest in ("", "/events"):
        refused = visitor(workspace, "v", rest)
        assert (code(refused), refused.json()["errors"][0]["field"]) == ((400, "bad_parameter"), "websiteId")
    assert visitor(workspace, "v", websiteId=other).json()["lastEvent"]["websiteId"] == other


@pytest.mark.parametrize("name", ["a/b", "a/events", "a b", "ü?#", "100%", "a%2Fb"])
def test_an_id_may_have_any_characters(workspace, name):
    send(workspace, visitorId=name)
    assert visitor(workspace, name).json()["visitorId"] == name
    assert visitor(workspace, name, "/events").json()["total"] == 1


def test_a_deleted_visitor_is_gone(workspace, merged):
    send(workspace, visitorId="phone")
    deletion = workspace.client.post("/api/deletions", json={"websiteId": workspace.website_id, "visitorId": "laptop"}).json()
    for name in ("phone", "laptop"):
        assert code(visitor(workspace, name)) == (404, "visitor_not_found")
        assert code(visitor(workspace, name, "/events")) == (404, "visitor_not_found")
    assert ids(listed(workspace)) == []
    while workspace.client.get(f"/api/deletions/{deletion['id']}").json()["state"] != "done":
        sleep(0.05)
    assert listed(workspace)["total"] == 0


def test_another_workspace_sees_nothing(workspace, other_workspace, merged):
    assert listed(other_workspace, search="ann")["total"] == 0
    assert code(visitor(other_workspace, merged)) == (404, "visitor_not_found")


@pytest.mark.parametrize("parameters", [{"days": 0}, {"search": ""}, {"search": "a\0"}, {"page": 0}, {"q": "x"}])
def test_bad_parameters_are_named(client, parameters):
    refused = client.get("/api/visitors", params=parameters)
    assert (code(refused), refused.json()["errors"][0]["field"]) == ((400, "bad_parameter"), next(iter(parameters)))
