"""Statistics of links: clicks, opens and installs."""

from hashlib import sha256
from itertools import count

import httpx
import pytest

from penstock.base.clock import iso
from penstock.base.ids import EventId, ScopeId, VisitorId, WebsiteId
from penstock.events.model import Kind, NewEvent, Source
from penstock.events.rows import CLICK_COLUMNS, EVENT_COLUMNS, event_row
from penstock.warehouse.errors import QueryFailed
from tests import user_agents
from tests.answers import body_of, faults
from tests.cases import cases
from tests.links.conftest import LINKS

DAY_MS = 86_400_000
NONE = {
    "clicks": 0,
    "uniqueClicks": 0,
    "botHits": 0,
    "qrScans": 0,
    "opens": 0,
    "installs": 0,
    "conversion": None,
}
_numbers = count(1)


@pytest.fixture
def add_event(warehouse, app_id):
    """Inserts an event that was matched to a link into the warehouse."""

    def add_event(
        link, name, at_ms, method="install_referrer", *, os="iOS", country="", website_id=None
    ):
        number = next(_numbers)
        event = NewEvent(
            website_id=WebsiteId(website_id or app_id), scope_id=ScopeId(app_id), kind=Kind.EVENT,
            name=name, source=Source.APP,
            occurred_at_ms=at_ms, stated_at_ms=at_ms, received_at_ms=at_ms, visitor_id="v",
            user_id=None, body_hash=b"",
            columns={"os": os, "country": country, "link": link["slug"], "link_method": method},
        )  # fmt: skip
        row = event_row(event, EventId(f"evt_{app_id}_{number}"), VisitorId("v"))
        warehouse.insert_json_rows("events", row.encode(), EVENT_COLUMNS, f"{app_id}-{number}")

    return add_event


@pytest.fixture
def add_click(warehouse, app_id):
    """Inserts a click into the warehouse."""

    def add_click(link, at_ms, **fields):
        from msgspec import json

        number = next(_numbers)
        row = {
            "website_id": app_id, "link_id": link["id"], "clicked_at": iso(at_ms),
            "click_id": f"clk_{number}", "answer": "page",
            "bot": False, "first_of_day": False, "platform": "ios",
            "token_hash": sha256(b"").hexdigest(),
        }  # fmt: skip
        warehouse.insert_json_rows(
            "clicks", json.encode(row | fields), CLICK_COLUMNS, f"{app_id}-click-{number}"
        )

    return add_click


@pytest.fixture
def get_statistics(client):
    def get_statistics(link, **query):
        return body_of(client.get(f"{LINKS}/{link['id']}/stats", params=query))

    return get_statistics


def totals_by_slug(client: httpx.Client, **query):
    return {
        record["slug"]: record["stats"] for record in client.get(LINKS, params=query).json()["data"]
    }


@pytest.mark.usefixtures("warehouse")
def test_a_click_counts_at_once(client, make_link, open_link, get_statistics):
    link = make_link(slug="a", fallbackUrl="https://www.example.com/")
    assert link["stats"] == NONE
    for user_agent in (
        user_agents.IOS["safari"],
        user_agents.IOS["safari"],
        user_agents.DESKTOP["edge"],
        "WhatsApp/2.25.14.75 i",
    ):
        open_link("a", user_agent)
    open_link("a?qr=1", user_agents.ANDROID["chrome"])
    open_link("a?qr=1", "WhatsApp/2.25.14.75 i")
    expected = NONE | {"clicks": 4, "uniqueClicks": 3, "botHits": 2, "qrScans": 1, "conversion": 0}
    assert get_statistics(link)["totals"] == expected
    assert totals_by_slug(client) == {"a": expected}
    answer = client.patch(LINKS, json={"id": link["id"], "isActive": False})
    assert answer.json()["stats"] == expected


def test_only_opens_and_installs_matched_to_the_link_count(
    client, clock, make_app, make_link, add_click, add_event, get_statistics
):
    first, second = make_link(slug="one"), make_link(slug="two")
    now_ms = clock()
    for _ in range(3):
        add_click(first, now_ms)
    add_event(first, "install", now_ms, "install_referrer")
    add_event(first, "install", now_ms, "network")
    for method in ("url", "url", "click_token"):
        add_event(first, "open", now_ms, method)
    add_event(first, "signed_up", now_ms)
    add_event(second, "install", now_ms, "click_token")
    add_event({"slug": "three"}, "install", now_ms)
    add_event(first, "install", now_ms, website_id=make_app())
    statistics = get_statistics(first)
    assert statistics["totals"] == NONE | {
        "clicks": 3,
        "opens": 3,
        "installs": 2,
        "conversion": 0.6667,
    }
    assert statistics["installsByMethod"] == {"install_referrer": 1, "network": 1}
    assert statistics["opensByMethod"] == {"url": 2, "click_token": 1}
    assert totals_by_slug(client) == {"one": statistics["totals"], "two": NONE | {"installs": 1}}


def test_days_follow_the_time_zone_and_have_no_gaps(
    make_link, add_click, add_event, get_statistics
):
    link = make_link()
    midnight_ms = 1_766_962_800_000  # 2025-12-29 00:00 in Berlin
    add_click(link, midnight_ms - 1)
    add_click(link, midnight_ms, first_of_day=True)
    add_click(link, midnight_ms + DAY_MS - 1, bot=True)
    add_event(link, "install", midnight_ms + 2 * DAY_MS)
    add_click(link, midnight_ms + 3 * DAY_MS)
    period = {"startAt": midnight_ms, "endAt": midnight_ms + 3 * DAY_MS - 3_600_000}
    statistics = get_statistics(link, **period, timezone="Europe/Berlin")
    assert statistics["data"] == [
        NONE | {"from": "2025-12-28T23:00:00.000Z", "to": "2025-12-29T23:00:00.000Z",
        "partial": False, "clicks": 1, "uniqueClicks": 1,
                "botHits": 1, "conversion": 0},
        NONE | {"from": "2025-12-29T23:00:00.000Z", "to": "2025-12-30T23:00:00.000Z",
        "partial": False},
        NONE | {"from": "2025-12-30T23:00:00.000Z", "to": "2025-12-31T23:00:00.000Z",
        "partial": True, "installs": 1},
    ]  # fmt: skip
    assert statistics["totals"] == NONE | {
        "clicks": 1,
        "uniqueClicks": 1,
        "botHits": 1,
        "installs": 1,
        "conversion": 1,
    }
    assert (statistics["interval"], statistics["timezone"]) == ("day", "Europe/Berlin")
    assert statistics["period"] == {
        "startAt": "2025-12-28T23:00:00.000Z",
        "endAt": "2025-12-31T22:00:00.000Z",
    }
    in_utc = [day["clicks"] for day in get_statistics(link, **period)["data"]]
    assert in_utc == [1, 0, 0, 0]


@cases(("interval", "buckets"), [("hour", 48), ("day", 2), ("week", 1), ("month", 2)])
def test_each_interval_has_contiguous_buckets(
    make_link, add_click, get_statistics, interval, buckets
):
    link = make_link()
    start_ms = 1_767_139_200_000  # 2025-12-31, a Wednesday
    for at_ms in (start_ms, start_ms + DAY_MS):
        add_click(link, at_ms)
    statistics = get_statistics(
        link, startAt=start_ms, endAt=start_ms + 2 * DAY_MS, interval=interval
    )
    assert len(statistics["data"]) == buckets
    assert (
        sum(bucket["clicks"] for bucket in statistics["data"])
        == statistics["totals"]["clicks"]
        == 2
    )
    assert [bucket["to"] for bucket in statistics["data"]][:-1] == [
        bucket["from"] for bucket in statistics["data"]
    ][1:]


@pytest.mark.usefixtures("warehouse")
def test_without_a_period_buckets_run_from_creation_until_now(
    clock, make_link, open_link, get_statistics
):
    link = make_link(fallbackUrl="https://www.example.com/")
    open_link(link["slug"], user_agents.DESKTOP["edge"])
    clock.advance(days=3)
    open_link(link["slug"], user_agents.DESKTOP["edge"])
    statistics = get_statistics(link)
    assert [day["clicks"] for day in statistics["data"]] == [1, 0, 0, 1]
    assert [day["partial"] for day in statistics["data"]] == [False] * 4
    assert statistics["data"][0]["from"][:10] == link["createdAt"][:10]
    assert statistics["period"] == {"startAt": None, "endAt": None}


def test_platforms_and_countries_are_listed_by_clicks(
    clock, make_link, add_click, add_event, get_statistics
):
    link, now_ms = make_link(), clock()
    for platform, country in [("android", "DE"), ("android", "DE"), ("ios", "JP"), ("desktop", "")]:
        add_click(link, now_ms, platform=platform, country=country)
    add_click(link, now_ms, platform="ios", country="DE", bot=True)
    add_event(link, "install", now_ms, os="Android", country="DE")
    add_event(link, "open", now_ms, os="iOS")
    statistics = get_statistics(link)
    assert [(row["platform"], row["clicks"], row["botHits"], row["opens"],
    row["installs"]) for row in statistics["platforms"]] == [
        ("android", 2, 0, 0, 1), ("desktop", 1, 0, 0, 0), ("ios", 1, 1, 1, 0)
    ]  # fmt: skip
    assert [(row["country"], row["clicks"], row["installs"],
    row["conversion"]) for row in statistics["countries"]] == [
        ("DE", 2, 1, 0.5), ("", 1, 0, 0), ("JP", 1, 0, 0)
    ]  # fmt: skip


def test_a_page_of_links_needs_one_query(
    client, clock, make_link, add_click, warehouse, monkeypatch
):
    links = [make_link() for _ in range(5)]
    for number, link in enumerate(links):
        for _ in range(number):
            add_click(link, clock())
    queries, query = [], warehouse.query
    monkeypatch.setattr(warehouse, "query", lambda *args: queries.append(args) or query(*args))
    clicks = {slug: totals["clicks"] for slug, totals in totals_by_slug(client).items()}
    assert clicks == {link["slug"]: number for number, link in enumerate(links)}
    assert len(queries) == 1


@cases(
    ("query", "field"),
    [
        ({"startAt": 10**12}, "endAt"), ({"endAt": 10**12}, "endAt"),
        ({"startAt": 10**12, "endAt": 10**12}, "endAt"),
        ({"interval": "year"}, "interval"),
        ({"timezone": "Mars"}, "timezone"), ({"startAt": "x", "endAt": 10**12}, "startAt"),
        ({"unit": "day"}, "unit"),
        ({"startAt": 0, "endAt": 2001 * DAY_MS, "interval": "day"}, "interval"),
    ],
)  # fmt: skip
def test_a_bad_parameter_is_400_with_its_name(client, make_link, query, field):
    answer = client.get(f"{LINKS}/{make_link()['id']}/stats", params=query)
    assert list(faults(answer, 400)) == [field]


def test_links_can_be_listed_and_disabled_while_the_warehouse_is_down(
    client, make_link, warehouse, monkeypatch
):
    link = make_link(slug="a")

    def fail(*_):
        raise QueryFailed("connection refused", 0)

    monkeypatch.setattr(warehouse, "query", fail)
    assert totals_by_slug(client) == {"a": None}
    disabled = client.patch(LINKS, json={"id": link["id"], "isActive": False})
    assert (disabled.status_code, disabled.json()["stats"]) == (200, None)
    assert client.get(f"{LINKS}/{link['id']}/stats").status_code == 503
