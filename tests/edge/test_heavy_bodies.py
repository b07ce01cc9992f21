"""Bodies that take longer than a millisecond to read are read in a thread, however small they are.

Tested is the rule, not the time.
"""

import asyncio
import gzip
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from penstock.events import service as events_service
from penstock.http import bodies, handlers
from penstock.http.answers import listing
from penstock.links.attribution import service as attribution_service
from penstock.segment import service as segment_service
from tests.cases import cases
from tests.tenant import Tenant
from tests.wired import Wire

HEAVY: dict[str, Any] = {
    "many bytes": {"properties": {"text": "a" * 8192}},
    "many numbers": {"properties": {"list": [1] * 400}},
    "many empty lists": {"properties": {"list": [[]] * 400}},
    "many properties": {"properties": {f"p{number}": 1 for number in range(400)}},
    "many unknown fields": {f"x{number}": 1 for number in range(400)},
    "many members of the root": {f"x{number}": {} for number in range(200)},
}
ROUTES = [
    "/api/v1/events",
    "/api/v1/transactions",
    "/api/track",
    "/api/identify",
    "/v1/track",
    "/api/mobile/deferred-links/resolve",
    "/api/auth/login",
]

LISTS = (
    "/api/events/refused",
    "/api/goals",
    "/api/funnels",
    "/api/mobile/deferred-links/matches",
    "/api/imports",
    "/api/deletions",
    "/api/settings/websites",
    "/api/settings/audit-log",
)


def is_on_the_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@pytest.fixture
def read_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each time that a body was parsed: whether it was on the event loop."""
    seen: list[bool] = []

    def noting(parse: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any) -> Any:
            seen.append(is_on_the_loop())
            return parse(*arguments)

        return noted

    for module, name in (
        (events_service, "parse_object"),
        (events_service, "_parse_tracked"),
        (events_service, "plain_server_event"),
        (events_service, "plain_tracked_event"),
        (segment_service, "parse_object_with_list"),
        (attribution_service, "parse_model"),
        (handlers, "parse_model"),
        (bodies, "_inflate"),
    ):
        monkeypatch.setattr(module, name, noting(getattr(module, name)))
    return seen


@pytest.fixture
def post(wire: Wire, workspace: Tenant) -> Callable[..., httpx.Response]:
    key = workspace.client.headers["Authorization"]

    def post(path: str, **fields: Any) -> httpx.Response:
        body: dict[str, Any] = {"websiteId": workspace.website_id, "visitorId": "v"}
        headers = {"Content-Type": "application/json", "User-Agent": "Chrome"}
        if path == "/v1/track":
            body = {"writeKey": workspace.website_id, "anonymousId": "v", "event": "opened"}
        elif path == "/api/track":
            body |= {"type": "event", "name": "opened"}
        elif path.startswith("/api/v1/"):
            body |= {"event": "opened"}
            headers["Authorization"] = key
        return wire.client.post(path, content=json.dumps(body | fields), headers=headers)

    return post


@cases("path", ROUTES)
def test_a_heavy_body_is_read_in_a_thread(
    post: Callable[..., httpx.Response], read_on_the_loop: list[bool], path: str
) -> None:
    post(path)  # caches the website, the key and the browser
    for name, fields in HEAVY.items():
        read_on_the_loop.clear()
        assert post(path, **fields).status_code in (200, 202, 401, 422), name
        assert set(read_on_the_loop) == {False}, name


@cases("path", ROUTES)
def test_an_ordinary_body_is_read_on_the_loop(
    post: Callable[..., httpx.Response], read_on_the_loop: list[bool], path: str
) -> None:
    properties = {f"property{number}": "a text" * 10 for number in range(30)}
    read_on_the_loop.clear()
    post(path, properties=properties)
    assert read_on_the_loop
    assert all(read_on_the_loop)


def test_ten_ordinary_events_of_a_browser_are_read_on_the_loop(
    wire: Wire, workspace: Tenant, post: Callable[..., httpx.Response], read_on_the_loop: list[bool]
) -> None:
    post("/api/track")
    read_on_the_loop.clear()
    item = {"type": "event", "name": "opened", "visitorId": "v", "path": "/a", "dedupeKey": "d"}
    item |= {"properties": {f"p{number}": "a short text" for number in range(10)}}
    events = {"websiteId": workspace.website_id, "events": [item] * 10}
    answer = wire.client.post("/api/track", json=events, headers={"User-Agent": "Chrome"})
    assert answer.status_code == 202
    assert read_on_the_loop == [True, True]  # as a single item, which ends at once, then whole


@cases("path", ["/api/v1/events", "/api/track", "/api/auth/login"])
def test_even_a_small_body_is_decompressed_in_a_thread(
    wire: Wire, read_on_the_loop: list[bool], workspace: Tenant, path: str
) -> None:
    key = workspace.client.headers["Authorization"]
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    if "v1" in path:
        headers["Authorization"] = key
    read_on_the_loop.clear()
    answer = wire.client.post(path, content=gzip.compress(b"") * 16, headers=headers)
    assert answer.status_code == 400
    assert read_on_the_loop[0] is False


def test_the_answer_to_a_list_is_written_in_a_thread(
    workspace: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def noted(page: Any) -> Any:
        seen.append(is_on_the_loop())
        return listing(page)

    monkeypatch.setattr(handlers, "listing", noted)
    for path in LISTS:
        assert workspace.browser.get(path).status_code == 200
    assert seen == [False] * len(LISTS)
