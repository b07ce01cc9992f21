"""What anyone may send to a website has a quota for each day, counted on disk and shown."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from penstock.app import Services
from penstock.base.calendar import utc_day
from penstock.base.clock import system_clock
from penstock.events.quota import DailyQuota
from penstock.metadb.tables import daily_events
from penstock.settings import Settings
from tests.conftest import ShiftedClock
from tests.events.conftest import Post, imported
from tests.tenant import Tenant, new_browser

DAY_MS = 86_400_000


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"daily_events": 3})


@pytest.fixture
def clock(clock: ShiftedClock) -> ShiftedClock:
    """Noon of a UTC day, so that no test meets midnight."""
    clock.ahead_ms = DAY_MS + DAY_MS // 2 - system_clock() % DAY_MS
    return clock


@pytest.fixture
def track(workspace: Tenant, site: str) -> Post:
    """What a browser does, without a key."""
    browser = new_browser(workspace)

    def post(**fields: Any) -> httpx.Response:
        event = {"websiteId": site, "visitorId": "v", "type": "event", "name": "e", **fields}
        return browser.post("/api/track", json=event)

    return post


@pytest.fixture
def use_up(track: Post) -> Callable[[], None]:
    def post() -> None:
        assert [track(dedupeKey=str(n)).status_code for n in range(3)] == [202] * 3

    return post


def is_over_quota(answer: httpx.Response) -> bool:
    return (answer.status_code, answer.json().get("code")) == (429, "daily_quota_used")


def test_events_over_the_quota_are_429_until_the_next_day(
    track: Post, use_up: Callable[[], None], clock: ShiftedClock
) -> None:
    use_up()
    answer = track(dedupeKey="4")
    assert is_over_quota(answer), answer.text
    assert "3 events" in answer.json()["detail"]
    assert "PENSTOCK_DAILY_EVENTS" in answer.json()["detail"]
    assert 43_000 < int(answer.headers["retry-after"]) <= 43_200
    clock.advance(seconds=int(answer.headers["retry-after"]))
    assert track(dedupeKey="4").status_code == 202


def test_what_anyone_may_send_has_the_quota_and_what_has_a_key_has_none(
    workspace: Tenant, site: str, use_up: Callable[[], None]
) -> None:
    use_up()
    tracked = {"type": "event", "name": "e", "visitorId": "v"}
    identity = {"websiteId": site, "visitorId": "v", "userId": "u"}
    of_anyone: list[tuple[str, Any]] = [
        ("/api/track", {"websiteId": site, **tracked}),
        ("/api/track", {"websiteId": site, "events": [tracked]}),
        ("/api/identify", identity),
    ]
    for path, body in of_anyone:
        assert is_over_quota(new_browser(workspace).post(path, json=body)), path
    sent = {"websiteId": site, "event": "e", "visitorId": "v"}
    of_backends: list[tuple[str, Any]] = [
        ("/api/v1/events", sent),
        ("/api/v1/events/batch", {"events": [sent]}),
        ("/api/v1/transactions", sent | {"event": "purchase", "amount": 1, "currency": "EUR"}),
        ("/api/track", {"websiteId": site, **tracked}),
        ("/api/track", {"websiteId": site, "events": [tracked]}),
        ("/api/identify", identity),
    ]
    for path, body in of_backends:
        assert workspace.client.post(path, json=body).is_success, path


def test_what_has_a_key_counts_nothing(workspace: Tenant, site: str, services: Services) -> None:
    tracked = {"websiteId": site, "type": "event", "name": "e", "visitorId": "v"}
    assert workspace.client.post("/api/track", json=tracked).status_code == 202
    assert services.events.quota.today(site).events == 0


def test_an_import_counts_nothing_and_is_not_stopped(
    workspace: Tenant, site: str, use_up: Callable[[], None], services: Services
) -> None:
    use_up()
    line = {"type": "event", "name": "e", "userId": "u", "timestamp": "2026-01-01T00:00:00Z"}
    assert imported(workspace, [line])["accepted"] == 1
    assert services.events.quota.today(site).events == 3


def test_the_quota_of_a_website_is_not_that_of_another(
    app_site: str, use_up: Callable[[], None], track: Post
) -> None:
    use_up()
    assert is_over_quota(track())
    assert track(websiteId=app_site).status_code == 202


def test_repeats_and_rejections_count_nothing(site: str, track: Post, services: Services) -> None:
    assert track(dedupeKey="1").status_code == 202
    for _ in range(5):
        assert track(dedupeKey="1").status_code == 202
        assert track(name="").status_code == 422
    assert services.events.quota.today(site).events == 1


def test_an_identify_call_counts_as_an_event(
    workspace: Tenant, site: str, services: Services
) -> None:
    body = {"websiteId": site, "visitorId": "v", "userId": "u"}
    assert new_browser(workspace).post("/api/identify", json=body).status_code == 200
    assert services.events.quota.today(site).events == 1


class TestOnBothDatabases:
    @pytest.fixture
    def metadb_url(self, database_url: str) -> str:
        return database_url

    def test_the_count_is_on_disk(
        self, use_up: Callable[[], None], services: Services, site: str
    ) -> None:
        use_up()
        restarted = DailyQuota(services.database, 3, services.clock)
        assert restarted.today(site) == services.events.quota.today(site)
        assert restarted.today(site).events == 3

    @pytest.mark.every_database
    def test_the_counts_of_today_and_yesterday_are_stored_and_no_older_ones(
        self, track: Post, services: Services, clock: ShiftedClock
    ) -> None:
        """A node whose clock is behind may still count for yesterday."""
        today = utc_day(clock())
        for _ in range(3):
            assert track().status_code == 202
            assert track().status_code == 202
            clock.advance(days=1)
        with services.database.read() as db:
            counts = db.execute(select(daily_events.c.day, daily_events.c.events)).all()
        assert sorted(map(tuple, counts)) == [(today + 1, 2), (today + 2, 2)]


def test_the_page_of_a_website_shows_its_events_of_today(
    workspace: Tenant, site: str, track: Post
) -> None:
    assert track().status_code == 202
    page = workspace.browser.get(f"/settings/websites/{site}").text
    shown = page[page.index("Quota today") :]
    assert shown.index('value="1"') < shown.index(" of ") < shown.index('value="3"') < 200
