"""Each website may store a number of events a day; its quota is counted on disk and shown."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from penstock.app import Services
from penstock.base.clock import system_clock
from penstock.events.quota import DailyQuota
from penstock.settings import Settings
from tests.conftest import ShiftedClock
from tests.events.conftest import Post
from tests.tenant import Tenant

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
def use_up(post_event: Post) -> Callable[[], None]:
    def post() -> None:
        assert [post_event(eventId=str(n)).status_code for n in range(3)] == [202] * 3

    return post


def is_over_quota(answer: httpx.Response) -> bool:
    return (answer.status_code, answer.json().get("code")) == (429, "daily_quota_used")


def test_events_over_the_quota_are_429_until_the_next_day(
    post_event: Post, use_up: Callable[[], None], clock: ShiftedClock
) -> None:
    use_up()
    answer = post_event(eventId="4")
    assert is_over_quota(answer), answer.text
    assert "3 events" in answer.json()["detail"]
    assert "PENSTOCK_DAILY_EVENTS" in answer.json()["detail"]
    assert 43_000 < int(answer.headers["retry-after"]) <= 43_200
    clock.advance(seconds=int(answer.headers["retry-after"]))
    assert post_event(eventId="4").json()["status"] == "accepted"


def test_every_route_of_senders_has_the_quota(
    workspace: Tenant, site: str, use_up: Callable[[], None]
) -> None:
    use_up()
    tracked = {"type": "event", "name": "e", "visitorId": "v"}
    sent = {"websiteId": site, "event": "e", "visitorId": "v"}
    bodies: dict[str, Any] = {
        "/api/v1/events/batch": {"events": [sent]},
        "/api/v1/transactions": sent | {"event": "purchase", "amount": 1, "currency": "EUR"},
        "/api/track": {"websiteId": site, **tracked},
        "/api/identify": {"websiteId": site, "visitorId": "v", "userId": "u"},
    }
    for path, body in bodies.items():
        assert is_over_quota(workspace.client.post(path, json=body)), path
    batch = {"websiteId": site, "events": [tracked]}
    assert is_over_quota(workspace.client.post("/api/track", json=batch))


def test_the_quota_of_a_website_is_not_that_of_another(
    workspace: Tenant, app_site: str, use_up: Callable[[], None], post_event: Post
) -> None:
    use_up()
    assert is_over_quota(post_event())
    assert post_event(websiteId=app_site).status_code == 202


def test_repeats_rejections_and_imports_count_nothing(
    workspace: Tenant, site: str, post_event: Post, services: Services
) -> None:
    assert post_event(eventId="1").status_code == 202
    for _ in range(5):
        assert post_event(eventId="1").json()["status"] == "duplicate"
        assert post_event(event=...).status_code == 422
    assert services.events.quota.today(site).events == 1


def test_an_identify_call_counts_as_an_event(
    workspace: Tenant, site: str, services: Services
) -> None:
    body = {"websiteId": site, "visitorId": "v", "userId": "u"}
    assert workspace.client.post("/api/identify", json=body).status_code == 200
    assert services.events.quota.today(site).events == 1


class TestOnBothDatabases:
    @pytest.fixture
    def metadb_url(self, database_url: str) -> str:
        return database_url

    @pytest.mark.every_database
    def test_the_count_is_on_disk(
        self, post_event: Post, use_up: Callable[[], None], services: Services, site: str
    ) -> None:
        use_up()
        restarted = DailyQuota(services.database, 3, services.clock)
        assert restarted.today(site) == services.events.quota.today(site)
        assert restarted.today(site).events == 3


def test_the_page_of_a_website_shows_its_events_of_today(
    workspace: Tenant, site: str, post_event: Post
) -> None:
    assert post_event().status_code == 202
    page = workspace.browser.get(f"/settings/websites/{site}").text
    shown = page[page.index("Events today") :]
    assert shown.index('value="1"') < shown.index(" of ") < shown.index('value="3"') < 200
