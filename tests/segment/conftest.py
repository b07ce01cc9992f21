"""Sends tracking protocol calls over plain HTTP, and reads the stored results."""

import json
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from tests.answers import faults_in
from tests.events.conftest import Stored, limits, settings, site, stored, stored_at
from tests.records import new_key
from tests.tenant import Tenant, visitor

__all__ = ["Stored", "limits", "settings", "site", "stored", "stored_at"]

Json = dict[str, Any]


def basic(write_key: str) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(f'{write_key}:'.encode()).decode()}"}


@dataclass
class Client:
    """Sends calls with a write key as the user name of Basic authentication."""

    http: httpx.Client
    write_key: str

    def post(self, address: str, body: Any, **headers: str) -> httpx.Response:
        return self.http.post(address, json=body, headers=basic(self.write_key) | headers)

    def call(self, call_type: str, **fields: Any) -> httpx.Response:
        body = {"anonymousId": "anon-1", **fields}
        return self.post(
            f"/v1/{call_type}", {name: value for name, value in body.items() if value is not ...}
        )

    def batch(self, *calls: Any, **fields: Any) -> httpx.Response:
        return self.post("/v1/batch", {"batch": calls, **fields})


def write_key_of(tenant: Tenant, website_id: str, *scopes: str) -> str:
    """Create an API key limited to the website and, unless scopes are given, to the scope
    `ingest`.
    """
    rights = {"scopes": scopes or ["ingest"], "websiteId": website_id}
    return new_key(tenant.browser, name="backend", **rights)


@pytest.fixture
def public(server: TestClient[Litestar], site: str) -> Client:
    """A client with the public write key: the website's ID."""
    return Client(visitor(server), site)


@pytest.fixture
def trusted(server: TestClient[Litestar], workspace: Tenant, site: str) -> Client:
    """A client whose write key is an API key."""
    return Client(visitor(server), write_key_of(workspace, site))


def rejected(answer: httpx.Response) -> dict[int, dict[str, str]]:
    """Return the error codes of each rejected call: field -> code, by the index of the call."""
    assert answer.status_code == 200, answer.text
    return {record["index"]: faults_in(record) for record in answer.json().get("rejected", [])}


def plans_of(tenant: Tenant, user_id: str) -> set[str]:
    """Return the stored values of the user's trait `plan`."""
    params = {"websiteId": tenant.website_id, "userId": user_id}
    lines = tenant.client.get("/api/personal-data", params=params).text.splitlines()
    users = [line["data"] for line in map(json.loads, lines) if line["type"] == "user"]
    return {user["traits"]["plan"] for user in users}
