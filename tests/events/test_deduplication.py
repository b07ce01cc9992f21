"""One event per ID, whatever happens around it. On both databases."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from litestar.testing import TestClient
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy import func, select, update

from penstock.app import Services, build_services
from penstock.events.repeats.model import number_ms
from penstock.metadb.tables import event_counts, installation
from penstock.settings import Settings
from penstock.warehouse.client import Warehouse
from tests.answers import body_of
from tests.applications import application
from tests.conftest import BASE_URL, ShiftedClock
from tests.events.conftest import Post, Stored
from tests.tenant import Tenant, visitor
from tests.waiting import PATIENCE_S, eventually


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


def test_a_repeat_is_a_duplicate_and_changes_nothing(post_event: Post, stored: Stored) -> None:
    first = post_event(eventId="order-1", properties={"n": 1, "m": 2}).json()
    answer = post_event(eventId="order-1", properties={"m": 2, "n": 1})
    assert answer.json() == {**first, "status": "duplicate"}
    assert len(stored()) == 1


def test_a_repeat_with_another_body_has_a_warning(post_event: Post, stored: Stored) -> None:
    first = post_event(eventId="order-1", properties={"n": 1}).json()
    again = post_event(eventId="order-1", visitorId="another", properties={"n": 2}).json()
    [warning] = again.pop("warnings")
    assert warning["code"] == "body_differs"
    assert again == {**first, "status": "duplicate"}
    assert [row["properties"] for row in stored()] == ['{"n":1}']


def test_a_repeat_links_nobody(post_event: Post) -> None:
    post_event(eventId="1", visitorId="v")
    post_event(eventId="1", visitorId="v", userId="u")
    assert post_event(visitorId=..., userId="u").json()["visitorId"] != "v"


def test_without_an_id_every_event_counts(post_event: Post, stored: Stored) -> None:
    assert [post_event().json()["status"] for _ in range(3)] == ["accepted"] * 3
    assert len(stored()) == 3


def test_a_rejected_request_uses_no_id(post_event: Post) -> None:
    assert post_event(eventId="1", event="").status_code == 422
    assert post_event(eventId="1").json()["status"] == "accepted"


def test_the_second_of_two_equal_ids_in_one_batch_is_the_duplicate(
    workspace: Tenant, site: str, stored: Stored
) -> None:
    event: dict[str, Any] = {"websiteId": site, "visitorId": "v", "event": "e", "eventId": "1"}
    events = [event, event, {**event, "event": "f"}]
    answer = workspace.client.post("/api/v1/events/batch", json={"events": events})
    first, second, third = results = answer.json()["results"]
    assert [result["status"] for result in results] == ["accepted", "duplicate", "duplicate"]
    assert first["eventId"] == second["eventId"] == third["eventId"]
    assert ("warnings" in second, third["warnings"][0]["code"]) == (False, "body_differs")
    assert len(stored()) == 1


def test_ids_belong_to_a_website_and_a_family_of_routes(
    workspace: Tenant, site: str, app_site: str, post_event: Post
) -> None:
    assert post_event(eventId="1").json()["status"] == "accepted"
    assert post_event(eventId="1", websiteId=app_site).json()["status"] == "accepted"
    item = {"websiteId": site, "type": "event", "name": "e", "visitorId": "v", "dedupeKey": "1"}
    assert workspace.client.post("/api/track", json=item).json()["accepted"] == 1


@pytest.mark.every_database
def test_a_hundred_identical_concurrent_posts_store_one_event(
    post_event: Post, stored: Stored
) -> None:
    with ThreadPoolExecutor(16) as pool:
        answers = [
            future.result().json()
            for future in [pool.submit(post_event, eventId="1", userId="u") for _ in range(100)]
        ]
    assert sorted(answer["status"] for answer in answers) == ["accepted"] + ["duplicate"] * 99
    assert len({(answer["eventId"], answer["visitorId"]) for answer in answers}) == 1
    assert len(stored()) == 1


def test_a_repeat_after_a_restart_is_a_duplicate(
    post_event: Post,
    settings: Settings,
    clock: ShiftedClock,
    warehouse: Warehouse,
    workspace: Tenant,
    site: str,
) -> None:
    first = post_event(eventId="1").json()
    with TestClient(
        application(build_services(settings, clock, warehouse)), base_url=BASE_URL
    ) as restarted:
        client = visitor(restarted, {"Authorization": workspace.client.headers["Authorization"]})
        event = {"websiteId": site, "visitorId": "visitor-1", "event": "signed_up", "eventId": "1"}
        assert client.post("/api/v1/events", json=event).json() == {**first, "status": "duplicate"}


@pytest.mark.every_database
@pytest.mark.full("several nodes")
def test_two_nodes_share_their_ids(
    post_event: Post, stored: Stored, settings: Settings, clock: ShiftedClock, warehouse: Warehouse,
    workspace: Tenant, site: str,
    services: Services,
) -> None:  # fmt: skip
    if services.database.is_sqlite:
        pytest.skip("one node only")
    with TestClient(
        application(build_services(settings, clock, warehouse)), base_url=BASE_URL
    ) as second:
        client = visitor(second, {"Authorization": workspace.client.headers["Authorization"]})

        def post_at_second(number: int) -> dict[str, Any]:
            event = {
                "websiteId": site,
                "visitorId": "visitor-1",
                "event": "signed_up",
                "eventId": f"{number % 10}",
            }
            return client.post("/api/v1/events", json=event).json()

        with ThreadPoolExecutor(16) as pool:
            first_posts = [
                pool.submit(lambda number=number: post_event(eventId=f"{number % 10}").json())
                for number in range(100)
            ]
            second_posts = [pool.submit(post_at_second, number) for number in range(100)]
            answers = [future.result() for future in [*first_posts, *second_posts]]
        assert [answer["status"] for answer in answers].count("accepted") == 10
        assert len({answer["eventId"] for answer in answers}) == 10
        assert len(stored()) == 10


@pytest.fixture
def hundred_days(settings: Settings) -> Settings:
    return settings.model_copy(update={"dedupe_days": 100})


def clean_up(services: Services, clock: ShiftedClock) -> None:
    """Let the worker that removes old keys run once more."""
    [worker] = [worker for worker in services.intake.workers if worker.name == "dedupe_key_cleanup"]
    before_ms = clock()
    clock.advance(seconds=1)  # A step may begin and end within a millisecond.
    worker.wake()
    eventually(lambda: (worker.health().last_success_at_ms or 0) > before_ms)


def assert_remembered_for(
    days: int, post_event: Post, services: Services, clock: ShiftedClock
) -> None:
    post_event(eventId="1")
    clock.advance(days=days - 1)
    clean_up(services, clock)
    assert post_event(eventId="1").json()["status"] == "duplicate"
    clock.advance(days=2)
    clean_up(services, clock)
    assert post_event(eventId="1").json()["status"] == "accepted"


def test_ids_are_remembered_for_400_days_unless_others_are_set(
    post_event: Post, services: Services, clock: ShiftedClock
) -> None:
    assert_remembered_for(400, post_event, services, clock)


class TestKeptFor100Days:
    @pytest.fixture
    def settings(self, hundred_days: Settings) -> Settings:
        return hundred_days

    def test_ids_are_forgotten_after_that(
        self, post_event: Post, services: Services, clock: ShiftedClock
    ) -> None:
        assert_remembered_for(100, post_event, services, clock)


# Posts to /api/track with and without an API key --------------------------------------------------

Track = Callable[..., dict[str, Any]]


@pytest.fixture
def track(site: str) -> Track:
    """Posts an item and returns its result."""

    def post(client: httpx.Client, dedupe_key: str = "order-1") -> dict[str, Any]:
        item = {"websiteId": site, "type": "event", "name": "paid", "visitorId": "v"}
        answer = client.post("/api/track", json={**item, "dedupeKey": dedupe_key})
        [result] = body_of(answer, 202)["results"]
        return {name: result[name] for name in ("status", "eventId")}

    return post


def test_a_stranger_uses_up_no_dedupe_key_of_a_backend(
    server: httpx.Client, workspace: Tenant, stored: Stored, track: Track
) -> None:
    by_stranger, by_backend = track(server), track(workspace.client)
    assert [by_stranger["status"], by_backend["status"]] == ["accepted", "accepted"]
    assert track(server) == {**by_stranger, "status": "duplicate"}
    assert track(workspace.client) == {**by_backend, "status": "duplicate"}
    assert len(stored()) == 2


def note_split(services: Services) -> None:
    """What a migration did in an installation of an earlier version."""
    assert services.shipper.wait_until_shipped(PATIENCE_S)
    with services.database.write() as db:
        newest = db.execute(select(func.max(event_counts.c.newest_number))).scalar_one()
        db.execute(update(installation).values(track_split_at=number_ms(newest)))


@contextmanager
def restarted(
    settings: Settings, clock: ShiftedClock, warehouse: Warehouse, workspace: Tenant
) -> Iterator[tuple[httpx.Client, httpx.Client, Services]]:
    """A second process on the same data: clients without and with a key."""
    services = build_services(settings, clock, warehouse)
    with TestClient(application(services), base_url=BASE_URL) as server:
        key = {"Authorization": workspace.client.headers["Authorization"]}
        yield visitor(server, {}), visitor(server, key), services


def test_keyed_posts_are_duplicates_of_events_from_before_the_split_for_400_days(
    server: httpx.Client,
    services: Services,
    settings: Settings,
    clock: ShiftedClock,
    warehouse: Warehouse,
    workspace: Tenant,
    track: Track,
) -> None:
    # Earlier versions stored every post under the key that is now the public one.
    before = [track(server, f"before-{number}") for number in range(2)]
    note_split(services)
    with restarted(settings, clock, warehouse, workspace) as (stranger, backend, _):
        assert track(stranger, "after")["status"] == "accepted"
        assert track(backend, "after")["status"] == "accepted"
        assert track(backend, "before-0") == {**before[0], "status": "duplicate"}
        clock.advance(days=399)
        assert track(backend, "before-0") == {**before[0], "status": "duplicate"}
        clock.advance(days=2)
        assert track(backend, "before-1")["status"] == "accepted"
        assert track(backend, "before-1")["status"] == "duplicate"


@pytest.mark.parametrize("has_split", [False, True], ids=["new", "upgraded"])
def test_earlier_dedupe_keys_cost_no_statement(
    server: httpx.Client,
    services: Services,
    settings: Settings,
    clock: ShiftedClock,
    warehouse: Warehouse,
    workspace: Tenant,
    track: Track,
    has_split: bool,
) -> None:
    track(server, "before")
    if has_split:
        note_split(services)
    with restarted(settings, clock, warehouse, workspace) as (stranger, backend, own_services):
        for client in (stranger, backend):
            track(client, "first")
        statements: list[str] = []
        sqlalchemy_event.listen(
            own_services.database.engine,
            "before_cursor_execute",
            lambda *arguments: statements.append(arguments[2]),
        )

        def number_of_lookups(client: httpx.Client) -> int:
            statements.clear()
            track(client, "second")
            return sum("FROM event_keys WHERE" in statement for statement in statements)

        assert [number_of_lookups(client) for client in (stranger, backend)] == [1, 1]
