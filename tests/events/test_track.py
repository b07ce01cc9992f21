"""POST /api/track: items of browsers and apps, from any page and without a key."""

import json
from collections.abc import Callable
from itertools import product
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from tests.answers import faults, faults_in
from tests.cases import cases
from tests.conftest import ShiftedClock
from tests.events.conftest import Stored
from tests.tenant import Tenant, visitor

_WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"
CHROME = f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {_WEBKIT} Chrome/120.0.0.0 Safari/537.36"
Track = Callable[..., httpx.Response]


@pytest.fixture
def track(server: TestClient[Litestar], site: str) -> Track:
    """Send one item as a browser on another site does."""
    browser = visitor(server, {"User-Agent": CHROME, "Origin": "https://shop.example"})

    def send(**fields: Any) -> httpx.Response:
        item = {"websiteId": site, "type": "pageview", "visitorId": "v", **fields}
        return browser.post(
            "/api/track", json={name: value for name, value in item.items() if value is not ...}
        )

    return send


def test_a_page_view_is_stored_with_all_its_fields(
    track: Track, stored: Stored, site: str, clock: ShiftedClock
) -> None:
    at_ms = clock() - 60_000
    answer = track(
        path="/pricing/", url="https://shop.example/pricing/?utm_source=mail&utm_campaign=may#top",
        referrer="https://News.example/a?b",
        title="Prices", utmSource="newsletter", sessionId="s-1", dedupeKey="d-1", timestamp=at_ms,
        properties={"variant": "b"},
    )  # fmt: skip
    assert answer.status_code == 202
    assert answer.headers["access-control-allow-origin"] == "*"
    event_id = answer.json()["results"][0]["eventId"]
    assert answer.json() == {
        "serverTime": answer.json()["serverTime"],
        "accepted": 1, "duplicates": 0, "rejected": 0,
        "results": [
            {
                "index": 0, "status": "accepted", "eventId": event_id, "visitorId": "v",
                "errors": [],
            }
        ],
    }  # fmt: skip
    [row] = stored()
    assert {name: row.pop(name) for name in ("visitor_key", "received_at", "scalars", "hashes")}
    assert row == {
        "website_id": site, "scope_id": site, "kind": "pageview", "name": "/pricing",
        "source": "browser", "event_id": event_id, "client_event_id": "d-1",
        "visitor_id": "v", "session_id": "s-1", "path": "/pricing", "title": "Prices",
        "properties": '{"variant":"b"}',
        "url": "https://shop.example/pricing/?utm_source=mail&utm_campaign=may#top",
        "referrer": "https://News.example/a?b", "referrer_host": "news.example",
        "utm_source": "newsletter", "utm_campaign": "may",
        "device": "desktop", "os": "Windows", "browser": "Chrome", "occurred_at": at_ms,
        "stated_at": at_ms,
    }  # fmt: skip


@cases(
    ("sent", "path"),
    [
        ({"path": "/"}, "/"),
        ({"path": "/a/"}, "/a"),
        ({"path": "/a//"}, "/a"),
        ({"path": "/a?b=/c/"}, "/a"),
        ({"path": "/a/#/b"}, "/a"),
        ({"path": "/?x"}, "/"),
        ({"path": "/Ä/%C3%84"}, "/Ä/Ä"),
        ({"url": "https://shop.example"}, "/"),
        ({"url": "https://shop.example/a/b/?c#d"}, "/a/b"),
        ({"path": "/told", "url": "https://shop.example/other"}, "/told"),
    ],
)
def test_a_path_is_stored_without_query_fragment_and_trailing_slash(
    track: Track, stored: Stored, sent: dict[str, str], path: str
) -> None:
    own = f"visitor of {sent}"
    assert track(**sent, visitorId=own).status_code == 202
    [row] = [row for row in stored() if row["visitor_id"] == own]
    assert (row["name"], row["path"]) == (path, path)


@cases(("kind", "field"), [("screenview", "screen"), ("event", "name"), ("transaction", "name")])
def test_the_other_types_are_named_by_their_own_field(
    track: Track, stored: Stored, kind: str, field: str
) -> None:
    answer = track(type=kind, **{field: "Checkout"}, url="https://shop.example/cart/")
    assert answer.status_code == 202
    [row] = [row for row in stored() if row["kind"] == kind]
    assert (row["name"], row["path"]) == ("Checkout", "/cart")


@cases(
    ("fields", "expected"),
    [
        ({}, {"path": "required"}),
        ({"path": "no-slash"}, {"path": "not_a_path"}),
        ({"path": ""}, {"path": "too_short"}),
        ({"url": "http://[bad"}, {"url": "not_a_url"}),
        ({"url": "mailto:someone"}, {"url": "not_a_url"}),
        ({"type": "screenview"}, {"screen": "required"}),
        ({"type": "event", "screen": "s"}, {"name": "required", "screen": "not_for_type"}),
        ({"type": "purchase", "path": "/"}, {"type": "not_one_of"}),
        ({"type": ..., "path": "/"}, {"type": "required"}),
        ({"type": ["event"], "path": "/"}, {"type": "not_one_of"}),
        ({"path": "/", "visitorId": ...}, {"visitorId": "required"}),
        ({"path": "/", "userId": "u"}, {"userId": "unknown_field"}),
        ({"path": "/", "websiteId": "web_unheard"}, {"websiteId": "unknown_website"}),
        ({"path": "/", "websiteId": ...}, {"websiteId": "required"}),
        ({"path": "/", "title": "\x00"}, {"title": "nul_character"}),
        ({"path": "/\x00"}, {"path": "nul_character"}),
        ({"path": "/", "properties": {"$path": "/"}}, {"properties.$path": "reserved_property"}),
        ({"path": "/", "sentAt": "now"}, {"sentAt": "not_a_time"}),
    ],
)
def test_a_single_invalid_item_is_rejected(
    track: Track, stored: Stored, fields: dict[str, Any], expected: dict[str, str]
) -> None:
    answer = track(**fields)
    assert faults(answer) == expected
    assert answer.headers["access-control-allow-origin"] == "*", "the page can read why"
    assert stored() == []


def test_all_faults_of_an_item_come_at_once(
    track: Track, stored: Stored, clock: ShiftedClock
) -> None:
    later = clock() + 600_000
    answers = [
        faults(track(websiteId="nowhere", visitorId=..., timestamp=later, path="/p")),
        faults(track(url="mailto:a@b", visitorId="", timestamp=later)),
        faults(track(type="transaction", name="purchase", amount=5, sentAt="now", timestamp=later)),
    ]
    assert answers == [
        {
            "websiteId": "unknown_website",
            "visitorId": "required",
            "timestamp": "timestamp_in_future",
        },
        {"url": "not_a_url", "visitorId": "too_short", "timestamp": "timestamp_in_future"},
        {"amount": "unknown_field", "sentAt": "not_a_time"},
    ]
    assert stored() == []


def test_a_session_belongs_into_each_item_of_a_batch(
    server: TestClient[Litestar], site: str
) -> None:
    answer = server.post("/api/track", json={"websiteId": site, "sessionId": "s", "events": [{}]})
    assert faults(answer) == {"sessionId": "unknown_field"}
    assert "in each item" in answer.json()["detail"] + answer.json()["errors"][0]["message"]


def test_a_batch_shares_website_and_time_of_sending(
    server: TestClient[Litestar], site: str, stored: Stored, clock: ShiftedClock
) -> None:
    items = [
        {"type": "pageview", "path": f"/{n}", "visitorId": "v", "timestamp": clock() - 1000 + n}
        for n in range(3)
    ]
    body = {
        "websiteId": site,
        "sentAt": clock(),
        "events": [*items, {"type": "pageview"}, 7, {**items[0], "websiteId": "web_unheard"}],
    }
    document = visitor(server).post("/api/track", json=body).json()
    assert (document["accepted"], document["rejected"]) == (3, 3)
    assert [faults_in(result) for result in document["results"][3:]] == [
        {"visitorId": "required", "path": "required"},
        {"": "wrong_type"},
        {"websiteId": "unknown_website"},
    ]
    assert [row["name"] for row in stored()] == ["/0", "/1", "/2"]


def test_a_batch_of_an_unknown_website_is_refused_as_a_whole(server: TestClient[Litestar]) -> None:
    body = {
        "websiteId": "web_unheard",
        "events": [{"type": "pageview", "path": "/", "visitorId": "v"}],
    }
    assert faults(visitor(server).post("/api/track", json=body)) == {"websiteId": "unknown_website"}


def test_send_beacon_sends_text(server: TestClient[Litestar], site: str, stored: Stored) -> None:
    item = json.dumps({"websiteId": site, "type": "pageview", "path": "/", "visitorId": "v"})
    answer = visitor(server).post(
        "/api/track", content=item, headers={"Content-Type": "text/plain;charset=UTF-8"}
    )
    assert answer.status_code == 202
    assert len(stored()) == 1


@cases("path", ["/api/track", "/api/identify"])
def test_any_page_may_call_without_credentials(server: TestClient[Litestar], path: str) -> None:
    headers = {
        "Origin": "https://shop.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    answer = visitor(server).options(path, headers=headers)
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["access-control-allow-methods"] == "POST"
    assert "content-type" in answer.headers["access-control-allow-headers"].lower()
    assert "access-control-allow-credentials" not in answer.headers


def test_the_dedupe_key_recognises_a_retry_sent_at_another_time(
    track: Track, stored: Stored, clock: ShiftedClock
) -> None:
    at_ms = clock() - 1000
    first = track(path="/", dedupeKey="d", timestamp=at_ms, sentAt=clock()).json()["results"][0]
    again = track(path="/", dedupeKey="d", timestamp=at_ms, sentAt=clock() + 1).json()
    assert again["duplicates"] == 1
    assert again["results"][0] == {**first, "status": "duplicate"}, (
        "no warning: sentAt is no part of what was sent"
    )
    assert len(stored()) == 1


DAY_MS = 86_400_000


@cases("skew_ms", [-DAY_MS, 6_000, DAY_MS])
def test_a_wrong_device_clock_is_corrected_and_both_times_stored(
    track: Track, stored: Stored, clock: ShiftedClock, skew_ms: int
) -> None:
    now_ms = clock()
    stated_ms = now_ms - 60_000 + skew_ms
    own = f"device {skew_ms}"
    sent = track(path="/", visitorId=own, timestamp=stated_ms, sentAt=now_ms + skew_ms)
    assert sent.status_code == 202
    [row] = [row for row in stored() if row["visitor_id"] == own]
    assert row["stated_at"] == stated_ms
    assert row["occurred_at"] == row["received_at"] - 60_000


@cases("skew_ms", [-DAY_MS // 2 + 1_000, -6_000, -4_000, 0, 4_000])
def test_a_clock_that_may_be_right_is_believed(
    track: Track, stored: Stored, clock: ShiftedClock, skew_ms: int
) -> None:
    stated_ms = clock() - 60_000
    own = f"device {skew_ms}"
    sent = track(path="/", visitorId=own, timestamp=stated_ms, sentAt=clock() + skew_ms)
    assert sent.status_code == 202
    [row] = [row for row in stored() if row["visitor_id"] == own]
    assert row["stated_at"] == row["occurred_at"] == stated_ms


def test_without_the_time_of_sending_a_timestamp_is_believed_or_refused(
    track: Track, stored: Stored, clock: ShiftedClock
) -> None:
    answer = track(path="/", timestamp=clock() + DAY_MS)
    assert faults(answer) == {"timestamp": "timestamp_in_future"}
    assert track(path="/", timestamp=clock() - DAY_MS).status_code == 202
    assert len(stored()) == 1


def test_a_correction_does_not_lead_before_1970(track: Track, clock: ShiftedClock) -> None:
    answer = track(path="/", timestamp="1970-01-01T00:00:05Z", sentAt=clock() + DAY_MS)
    assert faults(answer) == {"timestamp": "before_1970"}


IPAD = (
    "Mozilla/5.0 (iPad; CPU OS 16_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/16.5 Mobile/15E148 Safari/604.1"
)
TABLET = f"Mozilla/5.0 (Linux; Android 13; SM-X906C) {_WEBKIT} Chrome/112.0.0.0 Safari/537.36"
PHONE = f"Mozilla/5.0 (Linux; Android 13; Pixel 7) {_WEBKIT} Chrome/112.0.0.0 Mobile Safari/537.36"
CRAWLER = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"


@cases(
    ("user_agent", "device", "os", "browser"),
    [
        (CHROME, "desktop", "Windows", "Chrome"),
        (IPAD, "tablet", "iOS", "Mobile Safari"),
        (TABLET, "tablet", "Android", "Chrome"),
        (PHONE, "mobile", "Android", "Chrome Mobile"),
        (CRAWLER, "bot", None, "Googlebot"),
        ("", None, None, None),
    ],
)
def test_device_and_browser_come_from_the_user_agent(
    server: TestClient[Litestar],
    site: str,
    stored: Stored,
    user_agent: str,
    device: str | None,
    os: str | None,
    browser: str | None,
) -> None:
    own = f"visitor with {user_agent}"
    item = {"websiteId": site, "type": "pageview", "path": "/", "visitorId": own}
    visitor(server, {"User-Agent": user_agent}).post("/api/track", json=item)
    [row] = [row for row in stored() if row["visitor_id"] == own]
    assert (row.get("device"), row.get("os"), row.get("browser")) == (device, os, browser)


def test_an_app_is_an_app_whatever_library_it_sends_with(
    server: TestClient[Litestar], app_site: str, stored_at: Callable[[str], list[dict[str, Any]]]
) -> None:
    item = {"websiteId": app_site, "type": "screenview", "screen": "Home", "visitorId": "v"}
    visitor(server, {"User-Agent": "okhttp/4.12.0"}).post("/api/track", json=item)
    [row] = stored_at(app_site)
    assert (row["source"], row["device"], row["kind"]) == ("app", "mobile", "screenview")


def test_a_deleted_website_accepts_nothing(workspace: Tenant, track: Track) -> None:
    assert track(path="/").status_code == 202
    workspace.browser.delete(
        f"/api/settings/websites/{workspace.website_id}",
        headers={"Content-Type": "application/json"},
    )
    assert faults(track(path="/")) == {"websiteId": "unknown_website"}


def test_events_that_a_client_dropped_are_counted_once(
    track: Track, workspace: Tenant, site: str
) -> None:
    for _ in range(2):
        assert track(path="/", dedupeKey="d-1", droppedBefore=3).status_code == 202
    for wrong in (0, -1, 1.5, "3", True, 10**9 + 1):
        answer = track(path="/", droppedBefore=wrong)
        assert faults(answer) == {"droppedBefore": "not_a_count"}
    listed = workspace.client.get("/api/events/counts").json()["data"]
    [counts] = [counts for counts in listed if counts["websiteId"] == site]
    assert (counts["stored"] + counts["waiting"], counts["lostOnDevices"]) == (1, 3)


@cases(
    ("purpose", "path"), product(("prefetch", "prefetch;prerender"), ("/api/track", "/v1/track"))
)
def test_a_page_that_is_only_prefetched_stores_nothing(
    server: TestClient[Litestar], site: str, stored: Stored, purpose: str, path: str
) -> None:
    item = {"websiteId": site, "type": "event", "name": "a", "visitorId": "v"}
    call = {"writeKey": site, "event": "a", "anonymousId": "v"}
    body = item if path == "/api/track" else call
    before = len(stored())
    for headers, rows in (({"Sec-Purpose": purpose}, 0), ({}, 1)):
        answer = visitor(server, headers).post(path, json=body)
        assert answer.is_success, answer.text
        assert answer.json().get("results") in ([], None) or rows
        assert len(stored()) == before + rows
