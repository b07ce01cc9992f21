"""Write keys: which there are, what they may do, and what they may learn."""

from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from tests.answers import problem
from tests.identity.test_signed_identities import new_secret, owner_of, signature
from tests.records import new_key
from tests.segment.conftest import Client, Stored, basic, plans_of, rejected, write_key_of
from tests.tenant import Tenant, visitor

TRACK = {"event": "a", "anonymousId": "v"}


def test_the_write_key_is_the_user_of_basic_authentication_or_in_the_body_or_the_query(
    server: TestClient[Litestar], site: str, stored: Stored
) -> None:
    http, batch = visitor(server), {"batch": [{**TRACK, "type": "track"}]}
    for answer in (
        http.post("/v1/t", json=TRACK, headers=basic(site)),
        http.post("/v1/t", json={**TRACK, "writeKey": site}),
        http.post("/v1/b", json={"writeKey": site, **batch}),
        http.post(f"/beacon/v1/batch?writeKey={site}", json=batch),
    ):
        assert (answer.status_code, answer.json()) == (200, {"success": True})
    assert len(stored()) == 4


def test_an_unknown_write_key_is_401(server: TestClient[Litestar]) -> None:
    cases: list[tuple[dict[str, str], dict[str, Any], str]] = [
        ({}, {}, "write_key_required"),
        ({"Authorization": "Basic x"}, {}, "write_key_required"),
        ({}, {"writeKey": 5}, "write_key_required"),
        (basic("web_unknown"), {}, "key_not_valid"),
        (basic("a\x00b"), {}, "key_not_valid"),
        ({}, {"writeKey": "psk_unknown"}, "key_not_valid"),
    ]
    for headers, body, code in cases:
        answer = visitor(server).post("/v1/track", json=TRACK | body, headers=headers)
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (401, code)
        assert problem["message"] == problem["detail"]
        assert "write key" in problem["message"], "their users know it by this name"


def test_an_api_key_is_a_write_key_only_when_it_may_do_nothing_else(
    server: TestClient[Litestar], workspace: Tenant, site: str
) -> None:
    everything = workspace.client.headers["authorization"].removeprefix("Bearer ")
    every_website = new_key(workspace.browser, scopes=["ingest"])
    for key in (everything, every_website, write_key_of(workspace, site, "ingest", "read")):
        answer = visitor(server).post("/v1/track", json=TRACK, headers=basic(key))
        assert problem(answer) == (403, "not_a_write_key")


def test_a_revoked_write_key_is_401(trusted: Client, workspace: Tenant) -> None:
    [key] = [
        key
        for key in workspace.browser.get("/api/settings/api-keys").json()["data"]
        if key["name"] == "backend"
    ]
    assert trusted.call("track", event="a").status_code == 200
    workspace.browser.delete(f"/api/settings/api-keys/{key['id']}")
    assert trusted.call("track", event="a").status_code == 401


@pytest.mark.usefixtures("warehouse")
def test_a_public_key_overrides_no_backend_and_learns_nothing(
    public: Client, trusted: Client, workspace: Tenant
) -> None:
    trusted.call("identify", anonymousId="laptop", userId="ada", traits={"plan": "b"})
    for call in (
        {"type": "identify", "anonymousId": "laptop", "userId": "eve"},
        {"type": "alias", "previousId": "laptop", "userId": "eve"},
        {"type": "track", "event": "a", "anonymousId": "laptop", "userId": "eve"},
        {"type": "identify", "anonymousId": "phone", "userId": "ada", "traits": {"plan": "c"}},
        {"type": "track", "event": "a", "anonymousId": "laptop", "messageId": "m"},
        {"type": "track", "event": "b", "anonymousId": "laptop", "messageId": "m"},
    ):
        assert public.batch(call).json() == {"success": True}
    assert owner_of(workspace, "laptop") == "laptop"
    assert plans_of(workspace, "ada") == {"b"}


def test_a_signed_identify_overrides_a_public_one(public: Client, workspace: Tenant) -> None:
    secret = new_secret(workspace)
    public.call("identify", anonymousId="phone", userId="ada")
    signed = {"userHash": signature(secret, "ada")}
    public.call("identify", anonymousId="laptop", userId="ada", context=signed)
    assert owner_of(workspace, "phone") == "phone"
    assert owner_of(workspace, "laptop") == "laptop"


def test_a_website_that_requires_signatures_refuses_public_users_without_one(
    public: Client, workspace: Tenant, site: str, stored: Stored
) -> None:
    secret = new_secret(workspace)
    changed = workspace.browser.patch(
        f"/api/settings/websites/{site}", json={"requiresSignedIdentities": True}
    )
    assert changed.status_code == 200, changed.text
    unsigned = {"type": "identify", "anonymousId": "v", "userId": "ada"}
    signed = {**unsigned, "context": {"userHash": signature(secret, "ada")}}
    answer = public.batch(
        unsigned,
        {"type": "alias", "previousId": "v", "userId": "ada"},
        {"type": "track", "event": "a", "userId": "ada"},
        {"type": "track", "event": "b", "anonymousId": "v", "userId": "ada"},
        signed,
    )
    required = {"context.userHash": "required"}
    assert rejected(answer) == {0: required, 1: required, 2: {"anonymousId": "identity_required"}}
    assert [(row["name"], row["visitor_id"]) for row in stored()] == [("b", "v")]
    message = answer.json()["rejected"][0]["errors"][0]["message"]
    assert message.startswith("This website accepts only signed user IDs: send their userHash")
