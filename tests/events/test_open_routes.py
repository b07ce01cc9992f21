"""/api/track and /api/identify need no key, but check one that is sent."""

from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from tests.answers import faults, faults_in, problem
from tests.cases import cases
from tests.events.conftest import Stored
from tests.tenant import Tenant, visitor


def body_for(route: str, website_id: str) -> dict[str, Any]:
    if route == "/api/identify":
        return {"websiteId": website_id, "visitorId": "v", "userId": "u"}
    return {"websiteId": website_id, "visitorId": "v", "type": "pageview", "path": "/"}


@pytest.fixture(params=["/api/track", "/api/identify"])
def open_route(request: pytest.FixtureRequest) -> str:
    return request.param


def test_no_key_and_the_right_key_are_accepted(
    workspace: Tenant, server: TestClient[Litestar], open_route: str
) -> None:
    body = body_for(open_route, workspace.website_id)
    assert visitor(server).post(open_route, json=body).is_success
    assert workspace.client.post(open_route, json=body).is_success


@cases("authorization", ["Bearer psk_wrong", "Bearer ", "psk_wrong"])
def test_a_wrong_key_is_unauthorized(
    workspace: Tenant,
    server: TestClient[Litestar],
    stored: Stored,
    open_route: str,
    authorization: str,
) -> None:
    client = visitor(server, {"Authorization": authorization})
    answer = client.post(open_route, json=body_for(open_route, workspace.website_id))
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.headers["access-control-allow-origin"] == "*", "the page can read why"
    assert stored() == []


def test_a_revoked_key_is_unauthorized(workspace: Tenant, open_route: str) -> None:
    [key] = workspace.browser.get("/api/settings/api-keys").json()["data"]
    assert workspace.browser.delete(f"/api/settings/api-keys/{key['id']}").status_code == 204
    answer = workspace.client.post(open_route, json=body_for(open_route, workspace.website_id))
    assert answer.status_code == 401


def test_the_website_of_another_workspace_is_unauthorized(
    workspace: Tenant, other_workspace: Tenant, stored: Stored, open_route: str
) -> None:
    body = body_for(open_route, workspace.website_id)
    assert problem(other_workspace.client.post(open_route, json=body)) == (401, "website_not_owned")
    assert stored() == []


def test_a_batch_for_the_website_of_another_workspace_is_unauthorized(
    workspace: Tenant, other_workspace: Tenant, stored: Stored
) -> None:
    items = [{"type": "pageview", "path": "/", "visitorId": "v"}]
    batch = {"websiteId": workspace.website_id, "events": items}
    answer = other_workspace.client.post("/api/track", json=batch)
    assert problem(answer) == (401, "website_not_owned")
    assert stored() == []


def test_a_foreign_item_of_a_batch_is_rejected_by_itself(
    workspace: Tenant, other_workspace: Tenant, stored: Stored
) -> None:
    items = [body_for("/api/track", tenant.website_id) for tenant in (workspace, other_workspace)]
    foreign, own = other_workspace.client.post("/api/track", json={"events": items}).json()[
        "results"
    ]
    assert faults_in(foreign) == {"websiteId": "website_not_owned"}
    assert own["status"] == "accepted"
    assert stored() == []


def test_credentials_that_a_browser_adds_itself_are_no_key(
    workspace: Tenant, server: TestClient[Litestar], open_route: str
) -> None:
    """A proxy with a password in front of a page makes browsers send Basic credentials."""
    client = visitor(server, {"Authorization": "Basic dTpw"})
    body = body_for(open_route, workspace.website_id)
    assert client.post(open_route, json=body).is_success


def test_a_user_in_a_tracked_item_is_pointed_to_identify(workspace: Tenant) -> None:
    body = body_for("/api/track", workspace.website_id) | {"userId": "u"}
    answer: httpx.Response = workspace.client.post("/api/track", json=body)
    assert faults(answer) == {"userId": "unknown_field"}
    assert "/api/identify" in answer.json()["detail"]
