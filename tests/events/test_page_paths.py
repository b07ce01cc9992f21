"""All spellings of a page path are stored as one path, whatever route they come by."""

from typing import Any
from urllib.parse import quote

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from tests.events.conftest import Import, Stored
from tests.tenant import Tenant, visitor

SPELLINGS = {
    "/café": ["/café", "/caf%C3%A9", "/caf%c3%a9", "/cafe\u0301", "/cafe%CC%81/", "/x/../café#top"],
    "/a%20b": ["/a b", "/a%20b"],
    "/~ann": ["/~ann", "/%7Eann", "/%7eann"],
    "/a%2Fb": ["/a%2Fb", "/a%2fb"],
}
ALL = [(path, spelling) for path, spellings in SPELLINGS.items() for spelling in spellings]
URLS = [(path, f"https://shop.example{spelling}?utm_source=x") for path, spelling in ALL]


def assert_one_path_each(stored: Stored, expected: list[str]) -> None:
    events = stored()
    assert [event["path"] for event in events] == expected
    assert [event["name"] for event in events if event["kind"] == "pageview"] == expected


@pytest.mark.parametrize(("field", "pages"), [("path", ALL), ("url", URLS)])
@pytest.mark.parametrize("at_once", [True, False])
def test_spellings_from_browsers(
    server: TestClient[Litestar],
    site: str,
    stored: Stored,
    field: str,
    pages: list[tuple[str, str]],
    at_once: bool,
) -> None:
    """at_once: in one batch, which the full validation reads; single items are read faster."""
    items = [
        {"type": "pageview", field: page, "visitorId": "v", "timestamp": 1_700_000_000_000 + index}
        for index, (_, page) in enumerate(pages)
    ]
    bodies = [{"events": items}] if at_once else items
    for body in bodies:
        assert visitor(server).post("/api/track", json={"websiteId": site, **body}).is_success
    assert_one_path_each(stored, [path for path, _ in pages])


def test_the_pages_of_events_and_of_imports(
    workspace: Tenant, site: str, stored: Stored, run_import: Import
) -> None:
    item: dict[str, Any] = {"visitorId": "v", "timestamp": 1_700_000_000_000}
    event = {"websiteId": site, "type": "event", "name": "e", "path": "/caf%C3%A9", **item}
    assert workspace.client.post("/api/track", json=event).is_success
    lines = [
        {"type": "pageview", "path": path, **item, "timestamp": 1_700_000_000_001 + index}
        for index, path in enumerate(["/caf%c3%a9", "/a b"])
    ]
    job = run_import(lines)
    assert job["accepted"] == 2
    assert [event["path"] for event in stored()] == ["/café", "/café", "/a%20b"]


def test_pages_of_the_tracking_protocol(
    server: TestClient[Litestar], site: str, stored: Stored
) -> None:
    for index, (_, path) in enumerate(ALL):
        page = {"path": path, "url": f"https://shop.example{path}"}
        call = {"writeKey": site, "anonymousId": "a", "timestamp": f"2023-11-14T22:13:{index:02}Z"}
        answer = visitor(server).post("/v1/page", json={**call, "properties": page})
        assert answer.is_success, answer.text
    assert_one_path_each(stored, [path for path, _ in ALL])


def test_every_spelling_of_a_long_path_is_cut_alike(
    workspace: Tenant, site: str, stored: Stored
) -> None:
    def track(**page: str) -> int:
        item = {"websiteId": site, "type": "pageview", "visitorId": "v", **page}
        return workspace.client.post("/api/track", json=item).status_code

    longest, too_long = "/" + "あ" * 1_999, "/" + "あ" * 2_000
    spaces = "/" + " " * 700  # 2,101 characters in the canonical form
    for path in (longest, too_long, spaces):
        for spelling in (path, quote(path), f"{path}?query"):
            assert track(path=spelling) == track(url=f"https://shop.example{spelling}") == 202
    cut = {"/" + "あ" * 1_998 + "…", "/" + "%20" * 666 + "…"}
    assert {event["path"] for event in stored()} == {longest, *cut}
