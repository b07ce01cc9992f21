"""Signed user IDs prove a claim without an API key, and a website can require them."""

import hashlib
import hmac
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import select

from penstock.app import Services
from penstock.metadb.secret_box import SecretBox, WrongSecretKey, seal_all
from penstock.metadb.tables import identity_secrets, user_links
from penstock.settings import Settings
from tests.answers import body_of
from tests.conftest import ShiftedClock
from tests.tenant import Tenant, visitor


def secrets_path(tenant: Tenant) -> str:
    return f"/api/settings/websites/{tenant.website_id}/identity-secrets"


def new_secret(tenant: Tenant) -> str:
    return body_of(tenant.browser.post(secrets_path(tenant)), 201)["secret"]


def signature(secret: str, user_id: str) -> str:
    return hmac.new(secret.encode(), user_id.encode(), hashlib.sha256).hexdigest()


class Browser:
    """Sends identify calls without a key."""

    def __init__(self, server: TestClient[Litestar], tenant: Tenant) -> None:
        self._client, self._website_id = visitor(server), tenant.website_id

    def identify(self, visitor_id: str, user_id: str, **more: Any) -> Any:
        body = {"websiteId": self._website_id, "visitorId": visitor_id, "userId": user_id, **more}
        return self._client.post("/api/identify", json=body)


@pytest.fixture
def anonymous(server: TestClient[Litestar], workspace: Tenant) -> Browser:
    return Browser(server, workspace)


def owner_of(tenant: Tenant, visitor_id: str) -> str | None:
    """The canonical visitor in the response to a backend."""
    body = {"websiteId": tenant.website_id, "event": "e", "visitorId": visitor_id}
    return tenant.client.post("/api/v1/events", json=body).json()["visitorId"]


@pytest.mark.usefixtures("warehouse")
def test_a_signed_claim_overrides_public_claims_but_not_the_reverse(
    anonymous: Browser, workspace: Tenant
) -> None:
    signed = signature(new_secret(workspace), "ada")
    anonymous.identify("mallory", "ada", traits={"plan": "hacked"})
    answer = anonymous.identify("laptop", "ada", userHash=signed.upper(), traits={"plan": "pro"})
    assert answer.json() == {"visitorId": "laptop", "merged": False}
    anonymous.identify("mallory", "ada", traits={"plan": "hacked"})
    assert owner_of(workspace, "mallory") == "laptop"
    profile = workspace.client.get("/api/visitors/laptop").json()
    assert profile["user"]["traits"] == {"plan": "pro"}


def test_a_wrong_signature_is_422_and_links_nothing(
    anonymous: Browser, workspace: Tenant, services: Services
) -> None:
    secret = new_secret(workspace)
    for sent in (signature(secret, "bob"), signature("guess", "ada"), "", "x" * 65):
        answer = anonymous.identify("v", "ada", userHash=sent)
        assert body_of(answer, 422)["errors"][0]["field"] == "userHash"
    body = {"websiteId": workspace.website_id, "visitorId": "v", "userId": "ada", "userHash": "x"}
    assert workspace.client.post("/api/identify", json=body).status_code == 422, "with a key too"
    with services.database.read() as db:
        assert db.execute(select(user_links)).all() == []


def test_a_website_can_require_signed_identities(anonymous: Browser, workspace: Tenant) -> None:
    secret = new_secret(workspace)
    changes = {"requiresSignedIdentities": True}
    site = f"/api/settings/websites/{workspace.website_id}"
    assert workspace.browser.patch(site, json=changes).json()["requiresSignedIdentities"] is True
    refused = anonymous.identify("v", "ada")
    assert (refused.status_code, refused.json()["errors"][0]["code"]) == (422, "required")
    assert anonymous.identify("v", "ada", userHash=signature(secret, "ada")).status_code == 200
    body = {"websiteId": workspace.website_id, "visitorId": "w", "userId": "ada"}
    assert workspace.client.post("/api/identify", json=body).json()["merged"] is True


def test_the_previous_secret_is_valid_for_a_day(
    anonymous: Browser, workspace: Tenant, clock: ShiftedClock
) -> None:
    first, second = new_secret(workspace), new_secret(workspace)
    for secret in (first, second):
        assert anonymous.identify("v", "ada", userHash=signature(secret, "ada")).status_code == 200
    listed = workspace.browser.get(secrets_path(workspace)).json()
    assert [record["validUntil"] is None for record in listed["data"]] == [True, False]
    clock.advance(days=1, seconds=1)
    assert anonymous.identify("v", "ada", userHash=signature(first, "ada")).status_code == 422
    assert workspace.browser.get(secrets_path(workspace)).json()["total"] == 1
    assert workspace.browser.delete(secrets_path(workspace)).status_code == 204
    assert anonymous.identify("v", "ada", userHash=signature(second, "ada")).status_code == 422


def test_secrets_are_stored_encrypted_and_shown_once(workspace: Tenant, services: Services) -> None:
    secret = new_secret(workspace)
    with services.database.read() as db:
        stored = db.scalars(select(identity_secrets.c.secret)).one()
    assert secret not in stored
    assert secret not in workspace.browser.get(secrets_path(workspace)).text


def test_the_secret_key_of_the_installation_can_be_rotated(
    anonymous: Browser, workspace: Tenant, settings: Settings, services: Services
) -> None:
    def stored() -> str:
        with services.database.read() as db:
            return db.scalars(select(identity_secrets.c.secret)).one()

    def restart(keys: str) -> None:
        changed = Settings(**settings.model_dump() | {"secret_keys": keys})
        seal_all(services.database, SecretBox.from_settings(changed))

    new_secret(workspace)
    key_file = settings.data / "secret.key"
    old, new = key_file.read_text().strip(), "A" * 43 + "="
    before = stored()
    with pytest.raises(WrongSecretKey):
        restart(new)
    restart(f"{new},{old}")
    assert stored() != before
    restart(new)
    with pytest.raises(WrongSecretKey):
        restart(old)
    with pytest.raises(WrongSecretKey):
        restart("not a key")
    assert key_file.stat().st_mode & 0o777 == 0o600
