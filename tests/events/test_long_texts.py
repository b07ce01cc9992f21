"""Descriptive texts over their limit never lose an event: they are cut, with a mark."""

import json
from base64 import b64encode
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from penstock.base.cut_texts import MARK, cut_path, cut_text
from penstock.base.event_limits import MAX_PATH_CHARS, MAX_STRING_BYTES
from penstock.base.paths import page_path
from tests.answers import body_of
from tests.cases import cases
from tests.events.conftest import Import, Stored, imported
from tests.tenant import Tenant, visitor

LONG_PATH = "/" + "p" * 3_000
LONG_URL = f"https://shop.example/cart?{'x' * 9_000}&utm_source=mail&utm_campaign={'c' * 9_000}"
LONG = {
    "path": LONG_PATH,
    "url": LONG_URL,
    "referrer": f"https://news.example/{'ä' * 4_500}",
    "title": "t" * 9_000,
}
PAGE = {"type": "pageview", "visitorId": "v", **LONG}


def assert_cut(row: dict[str, Any]) -> None:
    assert row["name"] == row["path"] == LONG_PATH[: MAX_PATH_CHARS - 1] + MARK
    assert row["url"].startswith("https://shop.example/cart?xxx")
    assert (row["utm_source"], row["referrer_host"]) == ("mail", "news.example")
    for column in ("url", "referrer", "title", "utm_campaign"):
        assert row[column].endswith(MARK)
        assert MAX_STRING_BYTES - 3 <= len(row[column].encode()) <= MAX_STRING_BYTES


def test_texts_of_a_tracked_page_are_cut_and_its_campaign_is_read_before(
    server: TestClient[Litestar], site: str, stored: Stored
) -> None:
    body = {"websiteId": site, **PAGE}
    [result] = body_of(visitor(server).post("/api/track", json=body), 202)["results"]
    assert [warning["code"] for warning in result["warnings"]] == ["text_cut"]
    [row] = stored()
    assert_cut(row)


def test_the_path_of_a_long_url_is_cut(
    server: TestClient[Litestar], site: str, stored: Stored
) -> None:
    url = f"https://shop.example{LONG_PATH}?a"
    body = {"websiteId": site, "type": "pageview", "visitorId": "v", "url": url}
    body_of(visitor(server).post("/api/track", json=body), 202)
    [row] = stored()
    assert (row["url"], row["path"]) == (url, LONG_PATH[: MAX_PATH_CHARS - 1] + MARK)


def test_texts_of_a_segment_page_are_cut(
    server: TestClient[Litestar], site: str, stored: Stored
) -> None:
    call = {"type": "page", "anonymousId": "v", "properties": LONG}
    credentials = b64encode(f"{site}:".encode()).decode()
    headers = {"Authorization": f"Basic {credentials}"}
    answer = visitor(server).post("/v1/page", json=call, headers=headers)
    assert body_of(answer, 200) == {"success": True}
    [row] = stored()
    assert_cut(row)


def test_texts_of_imported_pages_are_cut(run_import: Import, stored: Stored) -> None:
    job = run_import([{**PAGE, "timestamp": "2024-05-01T10:00:00Z"}])
    assert (job["accepted"], [each["code"] for each in job["warnings"]]) == (1, ["text_cut"])
    [row] = stored()
    assert_cut(row)


EXPORTS = {
    "posthog": {
        "event": "$pageview", "distinct_id": "v", "timestamp": "2024-05-01T10:00:00Z",
        "properties": {
            "$current_url": LONG_URL, "$pathname": LONG_PATH, "title": LONG["title"],
            "$referrer": LONG["referrer"],
        },
    },
    "mixpanel": {
        "event": "$mp_web_page_view",
        "properties": {
            "time": 1714557600, "distinct_id": "v", "$current_url": LONG_URL,
            "current_url_path": LONG_PATH, "current_page_title": LONG["title"],
            "$referrer": LONG["referrer"],
        },
    },
    "amplitude": {
        "event_type": "[Amplitude] Page Viewed", "device_id": "v",
        "event_time": "2024-05-01 10:00:00",
        "event_properties": {
            "[Amplitude] Page URL": LONG_URL, "[Amplitude] Page Path": LONG_PATH,
            "[Amplitude] Page Title": LONG["title"], "referrer": LONG["referrer"],
        },
    },
    "segment": {
        "type": "page", "anonymousId": "v", "timestamp": "2024-05-01T10:00:00Z",
        "properties": LONG,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", EXPORTS)
def test_texts_of_pages_of_other_products_are_cut(
    workspace: Tenant, stored: Stored, name: str
) -> None:
    job = imported(workspace, json.dumps(EXPORTS[name]).encode(), format=name)
    assert (job["accepted"], job["rejected"]) == (1, 0)
    assert [each["code"] for each in job["warnings"]] == ["text_cut"]
    [row] = stored()
    assert_cut(row)


@cases("limit", [8, 9, 10, 11])
def test_a_text_is_cut_between_characters(limit: int) -> None:
    text = "äöüÄÖÜ"
    cut = cut_text(text, limit)
    assert cut[-1] == MARK
    assert text.startswith(cut[:-1])
    assert limit - 1 <= len(cut.encode()) <= limit
    assert cut_text(text, 12) == text


@cases("shift", range(4))
def test_a_path_that_was_cut_is_canonical(shift: int) -> None:
    path = page_path("/" + "a" * (MAX_PATH_CHARS - 6 + shift) + "/%2F%2F%2F%2F")
    cut = cut_path(path)
    assert MAX_PATH_CHARS - 3 <= len(cut) <= MAX_PATH_CHARS
    assert page_path(cut) == cut
