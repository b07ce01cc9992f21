"""Fixtures that send events over HTTP and read them from the warehouse."""

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock.app import Services
from penstock.events.imports import worker
from penstock.events.imports.formats.ndjson import NDJSON
from penstock.events.imports.formats.reader import ReaderLimits, Row
from penstock.settings import Settings
from penstock.warehouse.client import Warehouse
from tests.answers import body_of
from tests.records import new_website
from tests.tenant import Tenant
from tests.waiting import PATIENCE_S, eventually

Stored = Callable[[], list[dict[str, Any]]]
Post = Callable[..., httpx.Response]
Import = Callable[..., dict[str, Any]]
Content = Iterable[dict[str, Any]] | bytes
"""The lines or the bytes of a file."""
NDJSON_TYPE = "application/x-ndjson"


@pytest.fixture
def limits() -> dict[str, Any]:
    """Settings and limits to override. Empty by default; parametrize this fixture to set them."""
    return {}


@pytest.fixture
def settings(settings: Settings, limits: dict[str, Any]) -> Settings:
    fixed = {name: limits[name] for name in limits if hasattr(settings.limits, name)}
    chosen = {name: limits[name] for name in limits if name not in fixed}
    return settings.model_copy(update=chosen).with_limits(**fixed)


@pytest.fixture
def site(workspace: Tenant) -> str:
    return workspace.website_id


@pytest.fixture
def app_site(workspace: Tenant) -> str:
    """A tracked mobile app."""
    return new_website(workspace.client, "App", "mobile")


@pytest.fixture
def post_event(workspace: Tenant, site: str) -> Post:
    """Post a server event for the website. Unspecified fields have valid defaults."""

    def post(*, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
        event = {"websiteId": site, "visitorId": "visitor-1", "event": "signed_up", **fields}
        body = {name: value for name, value in event.items() if value is not ...}
        return workspace.client.post("/api/v1/events", json=body, headers=headers)

    return post


@pytest.fixture
def stored_at(services: Services, warehouse: Warehouse) -> Callable[[str], list[dict[str, Any]]]:
    """Return a website's events in the warehouse, ordered by time, without empty fields."""

    def read(website_id: str) -> list[dict[str, Any]]:
        assert services.shipper.wait_until_shipped(PATIENCE_S)
        names, rows = warehouse.query(
            "SELECT * EXCEPT (shipment)"
            " REPLACE (toUnixTimestamp64Milli(occurred_at) AS occurred_at,"
            " toUnixTimestamp64Milli(received_at) AS received_at,"
            " toUnixTimestamp64Milli(stated_at) AS stated_at) FROM events"
            " WHERE website_id = {website_id:String} ORDER BY occurred_at, event_id",
            {"website_id": website_id},
        )
        return [
            {
                name: value
                for name, value in zip(names, row, strict=True)
                if value or (value == 0 and value is not False)
            }
            for row in rows
        ]

    return read


@pytest.fixture
def stored(stored_at: Callable[[str], list[dict[str, Any]]], site: str) -> Stored:
    return lambda: stored_at(site)


def ndjson(lines: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def read_rows_by(
    patch: pytest.MonkeyPatch, rows: Callable[[Path, ReaderLimits], Iterator[Row]]
) -> None:
    """Make NDJSON imports read their rows with the given function."""
    patch.setattr(worker, "reader_named", lambda *_: replace(NDJSON, read_rows=rows))


def finished(client: httpx.Client, import_id: str) -> dict[str, Any]:
    """Wait until the import has ended, and return it."""

    def ended() -> dict[str, Any] | None:
        job: dict[str, Any] = client.get(f"/api/imports/{import_id}").json()
        return job if job["state"] in ("done", "failed", "cancelled") else None

    return eventually(ended)


def only_import(client: httpx.Client) -> str:
    """Return the ID of the only import of the workspace."""
    [job] = body_of(client.get("/api/imports"))["data"]
    import_id: str = job["id"]
    return import_id


def upload_to(
    client: httpx.Client,
    website_id: str,
    content: Content,
    media_type: str = NDJSON_TYPE,
    headers: Mapping[str, str] | None = None,
    **query: str,
) -> httpx.Response:
    """Upload lines, or the bytes of a file, for an import to the website."""
    return client.post(
        "/api/imports",
        params={"websiteId": website_id, **query},
        content=content if isinstance(content, bytes) else ndjson(content),
        headers={"Content-Type": media_type, **(headers or {})},
    )


def upload(tenant: Tenant, content: Content, *args: Any, **options: Any) -> httpx.Response:
    """Like `upload_to`, to the website of the tenant."""
    return upload_to(tenant.client, tenant.website_id, content, *args, **options)


def imported(tenant: Tenant, content: Content, *args: Any, **options: Any) -> dict[str, Any]:
    """Upload a file, and return its import when it has ended."""
    job = body_of(upload(tenant, content, *args, **options), 201)
    return finished(tenant.client, job["id"])


@pytest.fixture
def run_import(workspace: Tenant) -> Import:
    """Import lines or a raw body, and wait until the import has ended."""

    def run(
        content: Content,
        *,
        zipped: bool = False,
        website_id: str | None = None,
        media_type: str = NDJSON_TYPE,
    ) -> dict[str, Any]:
        if zipped:
            content = gzip.compress(content if isinstance(content, bytes) else ndjson(content))
        headers = {"Content-Encoding": "gzip"} if zipped else {}
        target = replace(workspace, website_id=website_id or workspace.website_id)
        return imported(target, content, media_type, headers)

    return run
