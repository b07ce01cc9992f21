"""Visitors over HTTP, after events, identify calls, merges and deletions."""

import re
from typing import Any
from urllib.parse import quote

import pytest

from penstock.base.clock import system_clock
from penstock.events.model import Kind, NewEvent, Source, Target
from penstock.events.rows import event_row
from penstock.events.service import ship_rows
from tests.answers import body_of, columns_of, problem
from tests.cases import cases, every_database_in_full_tier
from tests.records import new_key, new_website
from tests.tenant import Tenant
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("warehouse")


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


PHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 "
    "(KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1"
)


def send(tenant: Tenant, **event: Any) -> dict[str, Any]:
    body = {"websiteId": tenant.website_id, "event": "seen"} | event
    return body_of(tenant.client.post("/api/v1/events", json=body), 202)


def identify(tenant: Tenant, visitor_id: str, user_id: str, **more: Any) -> dict[str, Any]:
    body = {"websiteId": tenant.website_id, "visitorId": visitor_id, "userId": user_id} | more
    return body_of(tenant.client.post("/api/identify", json=body))


def listed(tenant: Tenant, **parameters: Any) -> dict[str, Any]:
    return body_of(tenant.client.get("/api/visitors", params=parameters))


def ids(page: dict[str, Any]) -> list[str]:
    return [record["visitorId"] for record in page["data"]]


def visitor(tenant: Tenant, visitor_id: str, rest: str = "", **parameters: Any) -> Any:
    return tenant.client.get(f"/api/visitors/{quote(visitor_id, safe='')}{rest}", params=parameters)


@pytest.fixture
def merged(workspace: Tenant) -> str:
    """Ann, who came with a phone and a laptop: the canonical ID is the phone's."""
    send(
        workspace, visitorId="phone", timestamp="2026-03-01T10:00:00Z", properties={"plan": "free"}
    )
    identify(workspace, "phone", "ann", traits={"plan": "pro"})
    send(workspace, visitorId="laptop", timestamp="2026-03-02T10:00:00Z", country="DE")
    assert identify(workspace, "laptop", "ann")["merged"] is True
    return "phone"


@pytest.mark.every_database
def test_visitors_are_listed_most_recently_active_first(workspace, clock):
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


@every_database_in_full_tier
def test_a_merged_visitor_is_one_line_with_its_user(workspace, merged):
    send(workspace, visitorId="laptop")
    send(workspace, visitorId="phone")
    page = listed(workspace)
    assert ids(page) == [merged]
    assert (page["data"][0]["userId"], page["data"][0]["events"]) == ("ann", 2)


@pytest.mark.parametrize("search", [None, "ann"])
def test_a_line_has_the_last_event_and_where_it_came_from(workspace, merged, search):
    """A server's event knows neither country nor device; those of earlier events are shown."""

    view = {"websiteId": workspace.website_id, "type": "pageview", "path": "/", "visitorId": merged}
    answer = workspace.client.post("/api/track", json=view, headers={"User-Agent": PHONE})
    assert answer.status_code == 202, answer.text
    send(workspace, userId="ann", event="paid")
    [line] = listed(workspace, days=400, **({"search": search} if search else {}))["data"]
    assert (line["lastEventKind"], line["lastEventName"]) == ("event", "paid")
    assert (line["country"], line["device"]) == ("DE", "mobile")


def test_the_list_covers_recent_days_and_a_search_all_history(workspace, merged):
    assert listed(workspace)["total"] == 0
    assert ids(listed(workspace, days=400)) == [merged]
    assert listed(workspace, search="phone")["data"][0]["lastEventAt"] == "2026-03-02T10:00:00.000Z"


@every_database_in_full_tier
@cases("search", ["phone", "laptop", "ann"])
def test_a_search_finds_by_visitor_id_absorbed_id_and_user_id(workspace, merged, search):
    page = listed(workspace, search=search)
    assert (ids(page), page["total"], page["data"][0]["events"]) == ([merged], 1, 2)


@every_database_in_full_tier
@cases("search", ["pho", "PHONE", "nobody", "%", "' OR 1=1"])
def test_a_part_of_an_id_does_not_find_visitors_before_the_days(workspace, merged, search):
    assert listed(workspace, search=search)["total"] == 0


@pytest.mark.every_database
@cases("search", ["pho", "HON", "an"])
def test_a_part_of_any_id_finds_recent_visitors(workspace, merged, search):
    send(workspace, visitorId="other")
    send(workspace, visitorId="phone")
    send(workspace, userId="ann", visitorId="laptop")
    page = listed(workspace, search=search)
    assert (ids(page), page["total"]) == ([merged], 1)
    assert listed(workspace, search="%")["total"] == 0


def test_filters_select_visitors_with_such_an_event(workspace):
    send(workspace, visitorId="a", country="DE")
    send(workspace, visitorId="b", country="FR", event="paid")
    send(workspace, visitorId="c", country="DE")
    send(workspace, visitorId="c", country="DE", event="paid")
    item = {"websiteId": workspace.website_id, "type": "pageview", "path": "/", "visitorId": "d"}
    phone = {"User-Agent": PHONE}
    workspace.client.post("/api/track", json=item, headers=phone).raise_for_status()
    for query, expected in (
        ({"country": "de"}, ["a", "c"]),
        ({"device": "mobile"}, ["d"]),
        ({"event": "/"}, ["d"]),
        ({"event": "paid"}, ["b", "c"]),
        ({"event": "paid", "country": "DE"}, ["c"]),
        ({"event": "paid", "country": "US"}, []),
        ({"search": "c", "event": "seen"}, ["c"]),
    ):
        page = listed(workspace, **query)
        assert (sorted(ids(page)), page["total"]) == (expected, len(expected)), query
    for query in ({"country": "DEU"}, {"country": "1a"}, {"event": ""}):
        assert workspace.client.get("/api/visitors", params=query).status_code == 400, query


@every_database_in_full_tier
def test_a_trait_selects_visitors_by_their_user_of_today(workspace):
    for visitor_id, traits in (
        ("a", {"plan": "pro", "seats": 5, "trial": False}),
        ("b", {"plan": "Pro", "seats": "5"}),
        ("c", {"plan": None, "seats": {"n": 5}}),
    ):
        send(workspace, visitorId=visitor_id)
        identify(workspace, visitor_id, f"user {visitor_id}", traits=traits)
    send(workspace, visitorId="nobody")
    for query, expected in (
        ({"trait": "plan"}, ["a", "b"]),
        ({"trait": "plan", "traitValue": "pro"}, ["a"]),
        ({"trait": "seats", "traitValue": "5"}, ["a", "b"]),
        ({"trait": "trial", "traitValue": "false"}, ["a"]),
        ({"trait": "plan", "traitValue": "p%"}, []),
        ({"trait": "pla"}, []),
        ({"trait": "seats", "search": "b"}, ["b"]),
        ({"trait": "plan", "event": "paid"}, []),
    ):
        page = listed(workspace, **query)
        names = sorted(record["userId"] or "" for record in page["data"])
        assert names == [f"user {name}" for name in expected], query
        assert page["total"] == len(expected), query
    identify(workspace, "a", "user a", traits={"seats": 9, "plan": None})
    assert listed(workspace, trait="plan", traitValue="pro")["total"] == 0
    send(workspace, visitorId="phone")
    identify(workspace, "phone", "user b")
    [both] = listed(workspace, trait="plan")["data"]
    assert (both["userId"], both["events"]) == ("user b", 2)


def test_traits_of_another_workspace_select_nothing(workspace, other_workspace):
    send(other_workspace, visitorId="a")
    identify(other_workspace, "a", "ann", traits={"plan": "pro"})
    send(workspace, visitorId="a")
    assert listed(workspace, trait="plan")["total"] == 0


def test_a_value_needs_the_name_of_its_trait(workspace):
    answer = workspace.client.get("/api/visitors", params={"traitValue": "pro"})
    [fault] = body_of(answer, 400)["errors"]
    assert (fault["code"], "trait" in fault["message"]) == ("required", True)


def test_the_list_of_one_website_has_its_own_visitors(workspace):
    other = new_website(workspace.client, "Other")
    send(workspace, visitorId="here")
    send(workspace, visitorId="abroad", websiteId=other)
    assert ids(listed(workspace, websiteId=other)) == ["abroad"]
    assert sorted(ids(listed(workspace))) == ["abroad", "here"]
    assert listed(workspace, websiteId=other, search="here")["total"] == 0


def test_a_visitor_known_from_identify_alone_has_no_times(workspace):
    identify(workspace, "v", "ann")
    [page] = listed(workspace, search="ann")["data"]
    assert page == {
        "visitorId": "v",
        "userId": "ann",
        "person": "ann",
        "websiteId": None,
        "events": 0,
        "firstEventAt": None,
        "lastEventAt": None,
        "lastEventKind": None,
        "lastEventName": None,
        "country": None,
        "device": None,
    }
    assert visitor(workspace, "v").json()["lastEvent"] is None


@cases("visitor_id", ["phone", "laptop"])
def test_any_id_of_a_visitor_returns_its_details(workspace, merged, visitor_id):
    body = visitor(workspace, visitor_id).json()
    assert (body["visitorId"], body["ids"], body["events"]) == (merged, ["phone", "laptop"], 2)
    assert (body["user"]["userId"], body["user"]["traits"]) == ("ann", {"plan": "pro"})
    assert columns_of(body["merges"], "visitorId", "userId") == [("laptop", "ann")]
    assert (body["firstEventAt"], body["lastEventAt"]) == (
        "2026-03-01T10:00:00.000Z",
        "2026-03-02T10:00:00.000Z",
    )
    assert (body["lastEvent"]["country"], body["lastEvent"]["visitorId"]) == ("DE", "laptop")


def test_a_timeline_has_every_field_newest_first(workspace, merged):
    page = visitor(workspace, "laptop", "/events").json()
    assert (ids(page), page["total"]) == (["laptop", "phone"], 2)
    first = page["data"][1]
    expected = {"kind": "event", "name": "seen", "source": "server", "userId": None}
    expected |= {"occurredAt": "2026-03-01T10:00:00.000Z", "country": None}
    expected["properties"] = {"plan": "free"}
    assert {name: first[name] for name in expected} == expected
    second = visitor(workspace, "laptop", "/events", page=2, pageSize=1).json()
    assert (second["total"], second["data"]) == (2, [first])


def test_a_timeline_shows_the_senders_own_event_id(workspace):
    send(workspace, visitorId="v", eventId="order-77", timestamp="2026-03-01T10:00:00Z")
    send(workspace, visitorId="v", timestamp="2026-03-02T10:00:00Z")
    events = visitor(workspace, "v", "/events").json()["data"]
    assert [event["clientEventId"] for event in events] == [None, "order-77"]
    assert visitor(workspace, "v").json()["lastEvent"]["clientEventId"] is None


def test_a_timeline_shows_the_link_and_its_method(workspace, services):
    send(workspace, visitorId="v", timestamp="2026-03-01T10:00:00Z")
    opened = NewEvent(
        website_id=workspace.website_id,
        scope_id=workspace.website_id,
        kind=Kind.EVENT,
        name="install",
        source=Source.APP,
        occurred_at_ms=(now_ms := system_clock()),
        stated_at_ms=now_ms,
        received_at_ms=now_ms,
        visitor_id="v",
        user_id=None,
        body_hash=b"",
        columns={"link": "spring", "link_method": "install_referrer"},
    )
    with services.database.write() as db:
        rows = [event_row(opened, "evt_install", "v")]
        ship_rows(db, Target.EVENTS, rows, 0)
    services.shipper.wake()
    events = visitor(workspace, "v", "/events").json()["data"]
    assert [(event["link"], event["linkMethod"]) for event in events] == [
        ("spring", "install_referrer"),
        (None, None),
    ]
    page = workspace.browser.get(f"/visitors/v?websiteId={workspace.website_id}").text
    assert re.search(r"<dt>Link</dt>\s*<dd><bdi>spring</bdi></dd>", page)
    assert re.search(r"<dt>Link method</dt>\s*<dd>\s*Install referrer\s*</dd>", page)


def test_a_timeline_covers_all_websites_that_share_visitors(workspace):
    shop, blog = (new_website(workspace.client, identityScope="all") for _ in range(2))
    send(workspace, visitorId="v", websiteId=shop)
    send(workspace, visitorId="v", websiteId=blog)
    body = visitor(workspace, "v", "/events", websiteId=shop).json()["data"]
    assert {record["websiteId"] for record in body} == {shop, blog}


def test_a_key_for_one_website_reads_no_traits_that_may_come_from_another(workspace):
    """Traits belong to visitors, which websites with the same identityScope share."""
    own = new_website(workspace.client, identityScope="all")
    key = new_key(workspace.browser, scopes=["read"], websiteId=own)
    limited = {"Authorization": f"Bearer {key}", "Cookie": ""}

    def read(path: str, **parameters: Any) -> Any:
        sent = {"websiteId": own} | parameters
        return workspace.browser.get(f"/api/visitors{path}", params=sent, headers=limited)

    send(workspace, visitorId="v", websiteId=own)
    identify(workspace, "v", "ann", websiteId=own, traits={"plan": "pro"})
    assert read("/v").json()["user"]["traits"] == {"plan": "pro"}
    assert ids(read("", trait="plan", traitValue="pro").json()) == ["v"]
    other = new_website(workspace.client, identityScope="all")
    identify(workspace, "v", "ann", websiteId=other, traits={"plan": "secret"})
    user = read("/v").json()["user"]
    assert (user["userId"], user["traits"]) == ("ann", None)
    assert problem(read("", trait="plan", traitValue="secret")) == (403, "website_not_of_key")
    assert visitor(workspace, "v", websiteId=own).json()["user"]["traits"] == {"plan": "secret"}


def test_the_same_id_on_separate_websites_is_several_visitors(workspace):
    other = new_website(workspace.client, "Other")
    send(workspace, visitorId="v")
    send(workspace, visitorId="v", websiteId=other)
    assert listed(workspace, search="v")["total"] == 2
    for rest in ("", "/events"):
        response = visitor(workspace, "v", rest)
        assert problem(response) == (400, "bad_parameter")
        assert response.json()["errors"][0]["field"] == "websiteId"
    assert visitor(workspace, "v", websiteId=other).json()["lastEvent"]["websiteId"] == other


@every_database_in_full_tier
@cases("name", ["a/b", "a/events", "a b", "ü?#", "100%", "a%2Fb"])
def test_an_id_may_have_any_characters(workspace, name):
    send(workspace, visitorId=name)
    assert visitor(workspace, name).json()["visitorId"] == name
    assert visitor(workspace, name, "/events").json()["total"] == 1


def test_a_deleted_visitor_is_gone(workspace, merged):
    send(workspace, visitorId="phone")
    form = {"websiteId": workspace.website_id, "visitorId": "laptop"}
    deletion = workspace.client.post("/api/deletions", json=form).json()
    for name in ("phone", "laptop"):
        assert problem(visitor(workspace, name)) == (404, "visitor_not_found")
        assert problem(visitor(workspace, name, "/events")) == (404, "visitor_not_found")
    assert ids(listed(workspace)) == []
    job = f"/api/deletions/{deletion['id']}"
    eventually(lambda: workspace.client.get(job).json()["state"] == "done")
    assert listed(workspace)["total"] == 0


def test_another_workspace_sees_nothing(workspace, other_workspace, merged):
    assert listed(other_workspace, search="ann")["total"] == 0
    assert problem(visitor(other_workspace, merged)) == (404, "visitor_not_found")


@cases("parameters", [{"days": 0}, {"search": ""}, {"search": "a\0"}, {"page": 0}, {"q": "x"}])
def test_bad_parameters_are_named(client, parameters):
    response = client.get("/api/visitors", params=parameters)
    assert problem(response) == (400, "bad_parameter")
    assert response.json()["errors"][0]["field"] in parameters
