"""What an API key may do: scopes, one website, an expiry; and who made it."""

from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import update

from penstock.app import Services
from penstock.base.clock import iso
from penstock.metadb.tables import api_keys
from tests.answers import body_of, problem
from tests.cases import cases
from tests.conftest import ShiftedClock
from tests.records import new_key, new_website
from tests.tenant import Tenant, audit_log, join, visitor

DEFINITION = {
    "name": "Sign-up",
    "steps": [{"type": "Event", "value": "a"}, {"type": "Event", "value": "b"}],
}
NDJSON = {"Content-Type": "application/x-ndjson"}
LINE = b'{"type": "event", "name": "a", "timestamp": "2026-01-01T00:00:00Z", "userId": "ada"}\n'


@pytest.fixture
def holder(server: TestClient[Litestar], workspace: Tenant) -> Any:
    """Makes a key and answers a client that calls with it."""

    def make(**rights: Any) -> httpx.Client:
        key = new_key(workspace.browser, **rights)
        return visitor(server, {"Authorization": f"Bearer {key}"})

    return make


def requests(website_id: str) -> dict[str, dict[str, Any]]:
    """Requests by scope: method and address, and the request."""
    event = {"websiteId": website_id, "event": "a", "userId": "ada"}
    item = {"websiteId": website_id, "type": "event", "name": "a", "visitorId": "v"}
    identity = {"websiteId": website_id, "visitorId": "v", "userId": "u"}
    return {
        "ingest": {
            "POST /api/v1/events": {"json": event},
            "POST /api/v1/events/batch": {"json": {"events": [event]}},
            "POST /api/track": {"json": item},
            "POST /api/identify": {"json": identity},
            f"POST /api/imports?websiteId={website_id}": {"content": LINE, "headers": NDJSON},
        },
        "read": {
            "GET /api/funnels": {},
            "GET /api/settings/websites": {},
            "POST /api/funnels/validate": {"json": DEFINITION},
            "POST /api/funnels/preview": {"json": DEFINITION},
        },
        "manage": {
            "POST /api/funnels": {"json": DEFINITION},
            "POST /api/deletions": {"json": {"websiteId": website_id, "userId": "nobody"}},
            "PATCH /api/settings/workspace": {"json": {"name": "Acme"}},
            f"GET /api/events/refused/export?websiteId={website_id}": {},
        },
    }


@pytest.mark.usefixtures("warehouse")
@cases("scope", ["ingest", "read", "manage"])
def test_a_key_may_do_what_its_scope_says_and_nothing_else(
    holder: Any, workspace: Tenant, scope: str
) -> None:
    client = holder(scopes=[scope])
    for needed, by_route in requests(workspace.website_id).items():
        for route, request in by_route.items():
            method, _, address = route.partition(" ")
            answer = client.request(method, address, **request)
            if needed == scope:
                assert answer.status_code < 400, (route, answer.text)
            else:
                assert answer.status_code == 403, (route, answer.text)
                assert answer.json()["code"] == "scope_missing"
                assert f'"{needed}"' in answer.json()["detail"]


@pytest.mark.parametrize("is_limited", [False, True])
def test_a_key_for_importing_can_follow_its_import(
    holder: Any, workspace: Tenant, is_limited: bool
) -> None:
    client = holder(scopes=["ingest"], websiteId=workspace.website_id if is_limited else None)
    address = f"/api/imports?websiteId={workspace.website_id}"
    job = client.post(address, content=LINE, headers=NDJSON).json()
    for part in ("", "/rejects"):
        assert client.get(f"/api/imports/{job['id']}{part}").status_code == 200
    assert client.get("/api/imports").status_code == 403


def test_a_key_for_one_website_cannot_follow_or_cancel_an_import_of_another(
    holder: Any, workspace: Tenant
) -> None:
    other = new_website(workspace.client, "Other")
    address = f"/api/imports?websiteId={workspace.website_id}"
    job = workspace.client.post(address, content=LINE, headers=NDJSON).json()
    client = holder(websiteId=other)
    for method, part in (("GET", ""), ("GET", "/rejects"), ("POST", "/cancel")):
        answer = client.request(method, f"/api/imports/{job['id']}{part}")
        assert problem(answer) == (403, "website_not_of_key"), part


@pytest.mark.usefixtures("warehouse")
def test_a_key_for_one_website_gets_no_job_that_it_could_not_read(
    holder: Any, workspace: Tenant
) -> None:
    client = holder(websiteId=workspace.website_id)
    address = f"/api/visitors?websiteId={workspace.website_id}"
    answer = client.get(address, headers={"Prefer": "respond-async"})
    assert (answer.status_code, answer.json()["data"]) == (200, [])


@pytest.mark.usefixtures("warehouse")
def test_a_key_without_limits_and_one_from_before_scopes_may_do_everything(
    holder: Any, workspace: Tenant, services: Services
) -> None:
    clients = [holder(), holder()]
    with services.database.write() as db:
        db.execute(update(api_keys).values(scopes=None, created_by=None, created_by_email=None))
    for by_route in requests(workspace.website_id).values():
        for route, request in by_route.items():
            method, _, address = route.partition(" ")
            for client in clients:
                assert client.request(method, address, **request).status_code < 400, route
    [record, *_] = workspace.browser.get("/api/settings/api-keys").json()["data"]
    assert (record["scopes"], record["createdBy"]) == (["ingest", "read", "manage"], None)


@pytest.mark.usefixtures("warehouse")
def test_a_key_for_one_website_has_no_access_to_another(holder: Any, workspace: Tenant) -> None:
    own = workspace.website_id
    other = new_website(workspace.client, "Other")
    client = holder(websiteId=own)
    for route, request in requests(own)["ingest"].items():
        assert client.post(route.partition(" ")[2], **request).status_code < 400
    for route, request in requests(other)["ingest"].items():
        answer = client.post(route.partition(" ")[2], **request)
        if route.endswith("/batch"):
            answer = client.post("/api/v1/events", json=request["json"]["events"][0])
        assert problem(answer) == (403, "website_not_of_key"), route
        assert own in answer.json()["detail"]
    assert client.get(f"/api/visitors?websiteId={own}").status_code == 200
    assert client.get(f"/api/settings/websites/{own}").status_code == 200
    for address in (
        "/api/visitors",
        f"/api/visitors?websiteId={other}",
        f"/api/visitors?websiteId={own}&websiteId={other}",
        f"/api/settings/websites/{other}",
        "/api/funnels",
    ):
        assert client.get(address).status_code == 403, address


@pytest.mark.usefixtures("warehouse")
def test_a_key_for_one_website_exports_a_person_s_events_of_that_website_only(
    holder: Any, workspace: Tenant
) -> None:
    key_website_id = new_website(workspace.client, "One", identityScope="shop")
    other_website_id = new_website(workspace.client, "Two", identityScope="shop")
    for website_id in (key_website_id, other_website_id):
        event = {"websiteId": website_id, "event": "a", "userId": "ada"}
        assert workspace.client.post("/api/v1/events", json=event).status_code == 202
    address = f"/api/personal-data?websiteId={key_website_id}&userId=ada"
    assert holder(scopes=["read"]).get(address).json()["code"] == "scope_missing"
    for client, events in ((holder(websiteId=key_website_id), 1), (workspace.client, 2)):
        answer = client.get(address)
        assert answer.status_code == 200, answer.text
        assert answer.text.count('"type":"event"') == events
    exports = [entry["target"] for entry in audit_log(workspace.browser, "exported")]
    assert exports == [f"personal-data {key_website_id}"] * 2


@pytest.mark.usefixtures("warehouse")
def test_a_key_for_one_website_reads_no_visitor_s_events_of_another(
    holder: Any, workspace: Tenant
) -> None:
    own = new_website(workspace.client, "One", identityScope="shop")
    other = new_website(workspace.client, "Two", identityScope="shop")
    for website_id, name in ((own, "seen"), (other, "secret")):
        event = {"websiteId": website_id, "event": name, "visitorId": "v"}
        assert workspace.client.post("/api/v1/events", json=event).status_code == 202
    limited = holder(websiteId=own, scopes=["read"])
    for address in ("/v/events?", "/v?", "?search=v&", "?"):
        path = f"/api/visitors{address}websiteId={own}"
        answer, whole = limited.get(path), workspace.client.get(path)
        assert answer.status_code == 200, answer.text
        assert (other in answer.text, "secret" in answer.text) == (False, False), address
        assert address == "?" or other in whole.text


def test_a_batch_of_a_key_for_one_website_stores_nothing_for_another(
    holder: Any, workspace: Tenant
) -> None:
    other = new_website(workspace.client, "Other")
    events = [
        {"websiteId": website_id, "event": "a", "userId": "ada"}
        for website_id in (other, workspace.website_id)
    ]
    key = holder(websiteId=workspace.website_id)
    answer = key.post("/api/v1/events/batch", json={"events": events})
    assert [result["status"] for result in answer.json()["results"]] == ["rejected", "accepted"]
    assert answer.json()["results"][0]["errors"][0]["field"] == "websiteId"


def test_a_key_ends_at_its_expiry(holder: Any, clock: ShiftedClock) -> None:
    client = holder(expiresAt=iso(clock() + 60_000))
    clock.advance(seconds=61)
    assert client.get("/api/funnels").status_code == 401


@cases(
    ("rights", "field"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["admin"]}, "scopes[0]"),
        ({"expiresAt": "2020-01-01T00:00:00Z"}, "expiresAt"),
        ({"expiresAt": 1.5}, "expiresAt"),
        ({"expiresAt": "tomorrow"}, "expiresAt"),
    ],
)
def test_unusable_rights_are_422(workspace: Tenant, rights: dict[str, Any], field: str) -> None:
    answer = workspace.browser.post("/api/settings/api-keys", json={"name": "x", **rights})
    assert body_of(answer, 422)["errors"][0]["field"] == field


@cases("odd", [10**13 * 2, "9999-12-31T23:59:59Z", -1, -(10**30)])
def test_an_expiry_beyond_every_calendar_is_refused_with_the_range(
    workspace: Tenant, odd: int | str
) -> None:
    form = {"name": "x", "expiresAt": odd}
    [error] = body_of(workspace.browser.post("/api/settings/api-keys", json=form), 422)["errors"]
    assert (error["field"], error["code"]) == ("expiresAt", "out_of_range")
    assert error["message"] == "Must be between 1970 and 2299."


def test_a_key_for_a_website_of_another_workspace_is_401(
    workspace: Tenant, other_workspace: Tenant
) -> None:
    form = {"name": "x", "websiteId": other_workspace.website_id}
    assert workspace.browser.post("/api/settings/api-keys", json=form).status_code == 401


def test_a_key_names_who_created_it_and_removing_them_can_revoke_theirs(
    server: TestClient[Litestar], workspace: Tenant
) -> None:
    def member_with_key() -> tuple[str, httpx.Client]:
        browser = join(workspace, "owner")
        key = new_key(browser)
        user = browser.get("/api/auth/session").json()["user"]
        [record, *_] = workspace.browser.get("/api/settings/api-keys").json()["data"]
        assert record["createdBy"] == user["email"]
        client = visitor(server, {"Authorization": f"Bearer {key}"})
        assert client.get("/api/funnels").status_code == 200
        return user["id"], client

    for query, expected in (("", 200), ("?revokeKeys=true", 401)):
        user_id, client = member_with_key()
        removed = workspace.browser.delete(f"/api/settings/members/{user_id}{query}")
        assert removed.status_code == 204
        assert client.get("/api/funnels").status_code == expected
    assert workspace.client.get("/api/funnels").status_code == 200, "others keep theirs"
