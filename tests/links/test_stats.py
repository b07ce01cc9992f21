"""What links are told to have brought."""

from hashlib import sha256
from itertools import count

import httpx
import pytest

from penstock.base.clock import iso
from penstock.base.ids import EventId, ScopeId, VisitorId, WebsiteId
from penstock.events.model import Kind, NewEvent, Source
from penstock.events.rows import CLICK_COLUMNS, EVENT_COLUMNS, event_row
from penstock.warehouse.client import QueryFailed
from tests.links import agents
from tests.links.conftest import LINKS

DAY_MS = 86_400_000
NONE = {"clicks": 0, "uniqueClicks": 0, "botHits": 0, "qrScans": 0, "opens": 0, "installs": 0, "conversion": None}
_numbers = count(1)


@pytest.fixture
def happened(warehouse, app_id):
    """Stores an event of the app that was matched to a link, as the warehouse gets it."""

    def happened(link, name, at_ms, method="install_referrer", *, os="iOS", country="", website_id=None):
        number = next(_numbers)
        event = NewEvent(
            website_id=WebsiteId(website_id or app_id), scope_id=ScopeId(app_id), kind=Kind.EVENT, name=name, source=Source.APP,
            occurred_at_ms=at_ms, stated_at_ms=at_ms, received_at_ms=at_ms, visitor_id="v", user_id=None, body_hash=b"",
            columns={"os": os, "country": country, "link": link["slug"], "link_method": method},
        )  # fmt: skip
        row = event_row(event, EventId(f"evt_{app_id}_{number}"), VisitorId("v"))
        warehouse.insert_json_rows("events", row.encode(), EVENT_COLUMNS, f"{app_id}-{number}")

    return happened


@pytest.fixture
def clicked(warehouse, app_id):
    """Stores a click as the warehouse gets it."""

    def clicked(link, at_ms, **fields):
        from msgspec import json

        number = next(_numbers)
        row = {
            "website_id": app_id, "link_id": link["id"], "clicked_at": iso(at_ms), "click_id": f"clk_{number}", "answer": "page",
            "bot": False, "first_of_day": False, "platform": "ios", "token_hash": sha256(b"").hexdigest(),
        }  # fmt: skip
        warehouse.insert_json_rows("clicks", json.encode(row | fields), CLICK_COLUMNS, f"{app_id}-click-{number}")

    return clicked


@pytest.fixture
def stats(client):
    def stats(link, **query):
        answer = client.get(f"{LINKS}/{link['id']}/stats", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return stats


def listed(client: httpx.Client, **query):
    return {record["slug"]: record["stats"] for record in client.get(LINKS, params=query).json()["data"]}


def test_a_click_that_was_answered_is_counted_at_once(client, make_link, open_link, stats):
    link = make_link(slug="a", fallbackUrl="https://www.example.com/")
    assert link["stats"] == NONE
    for user_agent in (agents.IOS["safari"], agents.IOS["safari"], agents.DESKTOP["edge"], "WhatsApp/2.25.14.75 i"):
        open_link("a", user_agent)
    open_link("a?qr=1", agents.ANDROID["chrome"])
    open_link("a?qr=1", "WhatsApp/2.25.14.75 i")
    expected = NONE | {"clicks": 4, "uniqueClicks": 3, "botHits": 2, "qrScans": 1, "conversion": 0}
    assert stats(link)["totals"] == expected
    assert listed(client) == {"a": expected}
    assert client.patch(LINKS, json={"id": link["id"], "isActive": False}).json()["stats"] == expected


def test_opens_and_installs_are_those_that_were_matched_to_the_link(client, clock, make_app, make_link, clicked, happened, stats):
    one, two = make_link(slug="one"), make_link(slug="two")
    now_ms = clock()
    for _ in range(3):
        clicked(one, now_ms)
    happened(one, "install", now_ms, "install_referrer")
    happened(one, "install", now_ms, "network")
    for method in ("url", "url", "click_token"):
        happened(one, "open", now_ms, method)
    happened(one, "signed_up", now_ms)
    happened(two, "install", now_ms, "click_token")
    happened({"slug": "three"}, "install", now_ms)
    happened(one, "install", now_ms, website_id=make_app())
    told = stats(one)
    assert told["totals"] == NONE | {"clicks": 3, "opens": 3, "installs": 2, "conversion": 0.6667}
    assert told["installsByMethod"] == {"install_referrer": 1, "network": 1}
    assert told["opensByMethod"] == {"url": 2, "click_token": 1}
    assert listed(client) == {"one": told["totals"], "two": NONE | {"installs": 1}}


def test_days_are_those_of_the_time_zone_and_have_no_gaps(make_link, clicked, happened, stats):
    link = make_link()
    midnight_ms = 1_766_962_800_000  # 2025-12-29 00:00 in Berlin
    clicked(link, midnight_ms - 1)
    clicked(link, midnight_ms, first_of_day=True)
    clicked(link, midnight_ms + DAY_MS - 1, bot=True)
    happened(link, "install", midnight_ms + 2 * DAY_MS)
    clicked(link, midnight_ms + 3 * DAY_MS)
    period = {"startAt": midnight_ms, "endAt": midnight_ms + 3 * DAY_MS - 3_600_000}
    told = stats(link, **period, timezone="Europe/Berlin")
    assert told["data"] == [
        NONE | {"from": "2025-12-28T23:00:00.000Z", "to": "2025-12-29T23:00:00.000Z", "partial": False, "clicks": 1, "uniqueClicks": 1,
                "botHits": 1, "conversion": 0},
        NONE | {"from": "2025-12-29T23:00:00.000Z", "to": "2025-12-30T23:00:00.000Z", "partial": False},
        NONE | {"from": "2025-12-30T23:00:00.000Z", "to": "2025-12-31T23:00:00.000Z", "partial": True, "installs": 1},
    ]  # fmt: skip
    assert told["totals"] == NONE | {"clicks": 1, "uniqueClicks": 1, "botHits": 1, "installs": 1, "conversion": 1}
    assert (told["interval"], told["timezone"]) == ("day", "Europe/Berlin")
    assert told["period"] == {"startAt": "2025-12-28T23:00:00.000Z", "endAt": "2025-12-31T22:00:00.000Z"}
    in_utc = [day["clicks"] for day in stats(link, **period)["data"]]
    assert in_utc == [1, 0, 0, 0]


@pytest.mark.parametrize(("interval", "buckets"), [("hour", 48), ("day", 2), ("week", 1), ("month", 2)])
def test_intervals(make_link, clicked, stats, interval, buckets):
    link = make_link()
    start_ms = 1_767_139_200_000  # 2025-12-31, a Wednesday
    for at_ms in (start_ms, start_ms + DAY_MS):
        clicked(link, at_ms)
    told = stats(link, startAt=start_ms, endAt=start_ms + 2 * DAY_MS, interval=interval)
    assert len(told["data"]) == buckets
    assert sum(bucket["clicks"] for bucket in told["data"]) == told["totals"]["clicks"] == 2
    assert [bucket["to"] for bucket in told["data"]][:-1] == [bucket["from"] for bucket in told["data"]][1:]


def test_without_a_period_the_buckets_go_from_the_creation_until_now(clock, make_link, open_link, stats):
    link = make_link(fallbackUrl="https://www.example.com/")
    open_link(link["slug"], agents.DESKTOP["edge"])
    clock.advance(days=3)
    open_link(link["slug"], agents.DESKTOP["edge"])
    told = stats(link)
    assert [day["clicks"] for day in told["data"]] == [1, 0, 0, 1]
    assert [day["partial"] for day in told["data"]] == [False] * 4
    assert told["data"][0]["from"][:10] == link["createdAt"][:10]
    assert told["period"] == {"startAt": None, "endAt": None}


def test_platforms_and_countries_with_most_clicks_first(clock, make_link, clicked, happened, stats):
    link, now_ms = make_link(), clock()
    for platform, country in [("android", "DE"), ("android", "DE"), ("ios", "JP"), ("desktop", "")]:
        clicked(link, now_ms, platform=platform, country=country)
    clicked(link, now_ms, platform="ios", country="DE", bot=True)
    happened(link, "install", now_ms, os="Android", country="DE")
    happened(link, "open", now_ms, os="iOS")
    told = stats(link)
    assert [(row["platform"], row["clicks"], row["botHits"], row["opens"], row["installs"]) for row in told["platforms"]] == [
        ("android", 2, 0, 0, 1), ("desktop", 1, 0, 0, 0), ("ios", 1, 1, 1, 0)
    ]  # fmt: skip
    assert [(row["country"], row["clicks"], row["installs"], row["conversion"]) for row in told["countries"]] == [
        ("DE", 2, 1, 0.5), ("", 1, 0, 0), ("JP", 1, 0, 0)
    ]  # fmt: skip


def test_a_list_asks_once_for_all_links_of_a_page(client, clock, make_link, clicked, warehouse, monkeypatch):
    links = [make_link() for _ in range(5)]
    for number, link in enumerate(links):
        for _ in range(number):
            clicked(link, clock())
    asked, query = [], warehouse.query
    monkeypatch.setattr(warehouse, "query", lambda *given: asked.append(given) or query(*given))
    assert [stats["clicks"] for stats in listed(client).values()] == [4, 3, 2, 1, 0]
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"startAt": 5}, "endAt"), ({"endAt": 5}, "endAt"), ({"startAt": 5, "endAt": 5}, "endAt"), ({"interval": "year"}, "interval"),
        ({"timezone": "Mars"}, "timezone"), ({"startAt": "x", "endAt": 5}, "startAt"), ({"unit": "day"}, "unit"),
        ({"startAt": 0, "endAt": 2001 * DAY_MS, "interval": "day"}, "interval"),
    ],
)  # fmt: skip
def test_a_bad_question_is_a_400_with_the_parameter(client, make_link, query, field):
    answer = client.get(f"{LINKS}/{make_link()['id']}/stats", params=query)
    assert (answer.status_code, [fault["field"] for fault in answer.json()["errors"]]) == (400, [field])


def test_links_are_listed_and_switched_while_the_event_store_is_away(client, make_link, warehouse, monkeypatch):
    link = make_link(slug="a")

    def away(*_):
        raise QueryFailed("connection refused", 0)

    monkeypatch.setattr(warehouse, "query", away)
    assert listed(client) == {"a": None}
    switched = client.patch(LINKS, json={"id": link["id"], "isActive": False})
    assert (switched.status_code, switched.json()["stats"]) == (200, None)
    assert client.get(f"{LINKS}/{link['id']}/stats").status_code == 503
