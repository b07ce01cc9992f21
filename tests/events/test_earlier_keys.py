"""Keys of events that an earlier version stored recognise repeats before, while and after they
move. On both databases.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from litestar.testing import TestClient
from sqlalchemy import delete, func, insert, select

from penstock.app import Services, build_services
from penstock.base.ids import WebsiteId, new_id
from penstock.events.model import Family, dedupe_key, scope_tag
from penstock.events.repeats.earlier import mover
from penstock.events.repeats.model import event_id_of, number_ms, visitor_of
from penstock.metadb.tables import dedupe_keys, event_keys, event_origins
from penstock.settings import Settings
from penstock.warehouse.client import Warehouse
from tests.answers import body_of
from tests.applications import application
from tests.conftest import ShiftedClock
from tests.events.conftest import Import
from tests.events.deletions.conftest import finished, request_deletion
from tests.events.event_keys import all_keys
from tests.serving import Served, start_until_killed
from tests.tenant import BASE_URL, Tenant, visitor
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("warehouse")

Json = dict[str, Any]
DAY_MS = 86_400_000


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key moves."""
    monkeypatch.setattr(mover.EarlierKeyMover, "_step", lambda self: self._event_keys.open())


def event(site: str, number: int, **fields: Any) -> Json:
    return {
        "websiteId": site,
        "event": "paid",
        "eventId": f"order-{number}",
        "visitorId": f"visitor-{number % 3}",
        "properties": {"n": number},
        **fields,
    }


def results(client: httpx.Client, events: list[Json]) -> list[Json]:
    answer = client.post("/api/v1/events/batch", json={"events": events})
    items: list[Json] = body_of(answer, 202)["results"]
    return items


def line(number: int) -> Json:
    return {
        "type": "event",
        "name": "paid",
        "timestamp": 1_740_000_000_000,
        "visitorId": "imported",
        "dedupeKey": f"line-{number}",
    }


def make_earlier(services: Services, site: str, ids: dict[str, str], family: Family) -> None:
    """Store the keys of events as an earlier version did. ids: Penstock's IDs by client's."""
    keys = {event_id_of(key): key for key in all_keys(services)}
    with services.database.write() as db:
        origins = {row.number: row for row in db.execute(select(event_origins))}
        for client_id, event_id in ids.items():
            key, c = keys[event_id], event_keys.c
            body = b"" if key.body is None else key.body.to_bytes(8, signed=True) + b"12345678"
            row = {
                "key": dedupe_key(WebsiteId(site), family, client_id),
                "body_hash": body,
                "event_id": event_id,
                "visitor_id": visitor_of(key),
                "scope_tag": origins[key.origin].scope_tag,
                "created_at": number_ms(key.number),
                "import_id": origins[key.origin].import_id,
            }
            db.execute(insert(dedupe_keys).values(row))
            db.execute(delete(event_keys).where(c.number == key.number))


def earlier_keys(services: Services) -> int:
    with services.database.read() as db:
        return db.execute(select(func.count()).select_from(dedupe_keys)).scalar_one()


@pytest.fixture
def upgraded(
    settings: Settings, clock: ShiftedClock, warehouse: Warehouse, workspace: Tenant
) -> Callable[[], Any]:
    """Another process on the same data, as after an upgrade."""

    @contextmanager
    def start() -> Iterator[tuple[httpx.Client, Services]]:
        services = build_services(settings, clock, warehouse)
        with TestClient(application(services), base_url=BASE_URL) as server:
            key = {"Authorization": workspace.client.headers["Authorization"]}
            yield visitor(server, key), services

    return start


def stored_earlier(services: Services, workspace: Tenant, count: int) -> list[Json]:
    """Store events, make their keys earlier ones, and return their results as repeats."""
    site = workspace.website_id
    accepted = results(workspace.client, [event(site, number) for number in range(count)])
    assert {result["status"] for result in accepted} == {"accepted"}
    ids = {f"order-{number}": result["eventId"] for number, result in enumerate(accepted)}
    make_earlier(services, site, ids, Family.EVENTS)
    return [{**result, "status": "duplicate"} for result in accepted]


@pytest.mark.usefixtures("held")
def test_repeats_are_recognised_before_their_keys_move(
    services: Services, workspace: Tenant, upgraded: Callable[[], Any]
) -> None:
    expected, site = stored_earlier(services, workspace, 4), workspace.website_id
    with upgraded() as (client, own):
        assert results(client, [event(site, number) for number in range(4)]) == expected
        [other] = results(client, [event(site, 0, properties={})])
        [warning] = other.pop("warnings")
        assert (warning["code"], other) == ("body_differs", expected[0])
        assert earlier_keys(own) == 4


def test_repeats_are_recognised_while_their_keys_move_and_afterwards(
    services: Services,
    workspace: Tenant,
    upgraded: Callable[[], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mover, "_KEYS_AT_ONCE", 3)
    expected, site = stored_earlier(services, workspace, 60), workspace.website_id
    events = [event(site, number) for number in range(60)]
    with upgraded() as (client, own):
        while earlier_keys(own):
            assert results(client, events) == expected
        assert results(client, events) == expected
        [other] = results(client, [event(site, 7, properties={})])
        assert other["warnings"][0]["code"] == "body_differs"
        new = results(client, [event(site, 60), event(site, 60)])
        assert [result["status"] for result in new] == ["accepted", "duplicate"]
        assert len(all_keys(own)) == 61


@pytest.mark.parametrize("moves", [False, True], ids=["held", "moved"])
def test_earlier_keys_expire(
    services: Services,
    workspace: Tenant,
    upgraded: Callable[[], Any],
    clock: ShiftedClock,
    monkeypatch: pytest.MonkeyPatch,
    moves: bool,
) -> None:
    if not moves:
        monkeypatch.setattr(mover.EarlierKeyMover, "_step", lambda self: self._event_keys.open())
    expected, site = stored_earlier(services, workspace, 2), workspace.website_id
    with upgraded() as (client, own):
        if moves:
            eventually(lambda: not earlier_keys(own))
        clock.advance(days=399)
        assert results(client, [event(site, 0)]) == expected[:1]
        clock.advance(days=2)
        again = results(client, [event(site, 0), event(site, 0)])
        assert [result["status"] for result in again] == ["accepted", "duplicate"]
        assert again[0]["eventId"] not in (None, expected[0]["eventId"])


def test_expired_keys_do_not_move(
    services: Services, workspace: Tenant, upgraded: Callable[[], Any], clock: ShiftedClock
) -> None:
    stored_earlier(services, workspace, 2)
    clock.advance(days=401)
    with upgraded() as (_, own):
        eventually(lambda: not earlier_keys(own))
        assert all_keys(own) == []


@pytest.mark.parametrize("moves", [False, True], ids=["held", "moved"])
def test_a_deletion_finds_earlier_and_new_keys(
    services: Services,
    workspace: Tenant,
    upgraded: Callable[[], Any],
    monkeypatch: pytest.MonkeyPatch,
    moves: bool,
) -> None:
    if not moves:
        monkeypatch.setattr(mover.EarlierKeyMover, "_step", lambda self: self._event_keys.open())
    site = workspace.website_id
    expected = stored_earlier(services, workspace, 6)
    with upgraded() as (client, _):
        results(client, [event(site, number) for number in range(6, 9)])
        request = request_deletion(client, site, visitorId="visitor-0")
        deletion = finished(client, request["id"])
        assert deletion["dedupeKeysCleared"] == 3
        repeats = results(client, [event(site, number) for number in range(9)])
        codes = [[each["code"] for each in result.get("warnings", [])] for result in repeats]
        assert codes == [["event_deleted"], [], []] * 3
        assert [result["eventId"] for result in repeats[:6]] == [
            result["eventId"] for result in expected
        ]
        assert {result["status"] for result in repeats} == {"duplicate"}
        # The visitor comes back, and its new keys stay.
        [back] = results(client, [event(site, 30)])
        assert results(client, [event(site, 30)]) == [{**back, "status": "duplicate"}]


@pytest.mark.parametrize("moves", [False, True], ids=["held", "moved"])
def test_lines_of_an_undone_import_are_imported_again(
    services: Services,
    workspace: Tenant,
    run_import: Import,
    upgraded: Callable[[], Any],
    monkeypatch: pytest.MonkeyPatch,
    moves: bool,
) -> None:
    if not moves:
        monkeypatch.setattr(mover.EarlierKeyMover, "_step", lambda self: self._event_keys.open())
    site = workspace.website_id
    job = run_import([line(number) for number in range(3)])
    ids = {event_id_of(key) for key in all_keys(services)}
    # Which line has which event does not matter here.
    names = {f"line-{number}": event_id for number, event_id in enumerate(sorted(ids))}
    make_earlier(services, site, names, Family.IMPORTS)
    with upgraded() as (client, _):
        undo = body_of(client.post(f"/api/imports/{job['id']}/undo"))
        deletion = finished(client, undo["deletion"]["id"])
        assert deletion["removed"]["database"]["dedupeKeys"] == 3
        assert earlier_keys(services) == len(all_keys(services)) == 0
    again = run_import([line(number) for number in range(3)])
    assert (again["accepted"], again["duplicates"]) == (3, 0)


@pytest.mark.every_database
@pytest.mark.full("several nodes")
def test_two_nodes_move_keys_and_recognise_repeats(
    services: Services,
    workspace: Tenant,
    upgraded: Callable[[], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if services.database.is_sqlite:
        pytest.skip("one node only")
    monkeypatch.setattr(mover, "_KEYS_AT_ONCE", 7)
    expected, site = stored_earlier(services, workspace, 100), workspace.website_id
    events = [event(site, number) for number in range(100)]
    with upgraded() as (first, own), upgraded() as (second, _):
        while earlier_keys(own):
            assert results(first, events) == expected
            assert results(second, events) == expected
        assert results(first, events) == results(second, events) == expected


KEYS = 1_200
PLANTED = "INSERT INTO dedupe_keys (key, body_hash, event_id, visitor_id, scope_tag, created_at)"


@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("starts three services")
@pytest.mark.parametrize(
    ("boundary", "number"),
    [("key_move_before_commit", 2), ("key_move_after_commit", 2)],
)
def test_the_move_continues_after_a_kill(
    tmp_path: Path, boundary: str, number: int, record_property: Callable[[str, object], None]
) -> None:
    data = tmp_path / "data"
    with Served(data) as service:
        key, site = service.first_account()
        [now] = results(service.client, [event(site, 0)])
        assert service.stop() == 0
    ids = [new_id("evt", 1_000) for _ in range(KEYS)]
    with sqlite3.connect(data / "penstock.sqlite3") as db:
        [[numbered]] = db.execute("SELECT number FROM event_keys")
        created_at_ms = number_ms(numbered)
        for index, event_id in enumerate(ids, 1):
            own_key = dedupe_key(WebsiteId(site), Family.EVENTS, f"order-{index}")
            tag = scope_tag(site)  # type: ignore[arg-type]
            values = (own_key, b"0" * 16, event_id, "someone", tag, created_at_ms)
            db.execute(f"{PLANTED} VALUES (?, ?, ?, ?, ?, ?)", values)

    def assert_known(service: Served) -> None:
        for start in range(1, KEYS, 600):
            events = [event(site, each) for each in range(start, start + 600)]
            repeats = results(service.client, events)
            assert [repeat["eventId"] for repeat in repeats] == ids[start - 1 : start + 599]
            assert {repeat["status"] for repeat in repeats} == {"duplicate"}
        assert results(service.client, [event(site, 0)]) == [{**now, "status": "duplicate"}]

    program = ("tests.faults.faulty_service", boundary, str(number))
    start_until_killed(data, program, key)
    record_property("kills", 1)
    with sqlite3.connect(data / "penstock.sqlite3") as db:
        [[left]] = db.execute("SELECT count(*) FROM dedupe_keys")
        [[moved]] = db.execute("SELECT count(*) FROM event_keys")
    assert (0 < left < KEYS, left + moved) == (True, KEYS + 1)
    with Served(data, key=key) as service:
        assert_known(service)
        eventually(lambda: not keys_left(data))
        assert_known(service)
        assert service.stop() == 0


def keys_left(data: Path) -> int:
    with sqlite3.connect(data / "penstock.sqlite3") as db:
        [[left]] = db.execute("SELECT count(*) FROM dedupe_keys")
    return int(left)
