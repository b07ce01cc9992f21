"""Runs the tests of deletions on both kinds of metadata DB, because deletions change both
stores.
"""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.answers import body_of
from tests.conftest import ShiftedClock
from tests.funnels.scenario import Scene
from tests.tenant import Tenant
from tests.waiting import eventually

Json = dict[str, Any]
Delete = Callable[..., Json]


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


@pytest.fixture
def scene(workspace: Tenant, clock: ShiftedClock) -> Scene:
    return Scene(workspace, clock)


def finished(client: httpx.Client, deletion_id: str) -> Json:
    """Wait until the deletion is done, and return it."""

    def done() -> Json | None:
        deletion: Json = client.get(f"/api/deletions/{deletion_id}").json()
        return deletion if deletion["state"] == "done" else None

    return eventually(done)


def request_deletion(client: httpx.Client, website_id: str, **target: Any) -> Json:
    """Request a deletion, retrying while the store is too busy."""

    def answered() -> httpx.Response | None:
        answer = client.post("/api/deletions", json={"websiteId": website_id, **target})
        return answer if answer.status_code != 503 else None

    answer: httpx.Response = eventually(answered)
    return body_of(answer, 201)


@pytest.fixture
def delete(workspace: Tenant) -> Delete:
    """Delete a visitor, a user or a period from the workspace's website, and wait until the
    deletion is done.
    """

    def run(website_id: str | None = None, **target: Any) -> Json:
        return finished(
            workspace.client,
            request_deletion(workspace.client, website_id or workspace.website_id, **target)["id"],
        )

    return run
