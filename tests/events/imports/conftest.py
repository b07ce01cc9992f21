"""Imports keep their jobs in the metadata DB: their tests run on both kinds of it."""

import gzip
import json
from collections.abc import Callable, Iterable
from typing import Any

import httpx
import pytest

from tests.tenant import Tenant
from tests.waiting import eventually

Import = Callable[..., dict[str, Any]]


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


def ndjson(lines: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def finished(client: httpx.Client, import_id: str) -> dict[str, Any]:
    """The import once nothing more happens to it."""

    def ended() -> dict[str, Any] | None:
        job: dict[str, Any] = client.get(f"/api/imports/{import_id}").json()
        return job if job["state"] in ("done", "failed", "cancelled") else None

    job: dict[str, Any] = eventually(ended)
    return job


@pytest.fixture
def run_import(workspace: Tenant) -> Import:
    """Import lines, or a body as it is, and wait for the end."""

    def run(
        lines: Iterable[dict[str, Any]] | bytes,
        *,
        zipped: bool = False,
        website_id: str | None = None,
    ) -> dict[str, Any]:
        body = lines if isinstance(lines, bytes) else ndjson(lines)
        query = {"websiteId": website_id or workspace.website_id}
        headers = {
            "Content-Type": "application/x-ndjson",
            **({"Content-Encoding": "gzip"} if zipped else {}),
        }
        answer = workspace.client.post(
            "/api/imports",
            params=query,
            content=gzip.compress(body) if zipped else body,
            headers=headers,
        )
        assert answer.status_code == 201, answer.text
        return finished(workspace.client, answer.json()["id"])

    return run
