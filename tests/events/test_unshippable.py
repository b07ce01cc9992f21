"""Rows that the event store refuses: alone in the quarantine, everything else is stored, once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import select

from penstock.app import Services
from penstock.events import shipper as shipper_module
from penstock.events.shipper import Shipper
from penstock.metadb.database import Database
from penstock.metadb.tables import outbox
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import QueryFailed
from tests.events.conftest import Stored
from tests.events.test_quarantine import counted, refused
from tests.segment.conftest import write_key_of
from tests.serving import Served
from tests.tenant import Tenant, visitor

BAD_ROW = 27  # CANNOT_PARSE_INPUT_ASSERTION_FAILED


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


class RejectingWarehouse(Warehouse):
    """A warehouse that refuses rows of events called `bad`, and all inserts while `broken`."""

    def __init__(self, whole: Warehouse, code: int = BAD_ROW) -> None:
        vars(self).update(vars(whole))
        self.code, self.broken, self.refusals = code, False, 0

    def insert_json_rows(self, table: str, rows: bytes, columns: Sequence[str], token: str) -> bool:
        if self.broken or b'"name":"bad' in rows:
            self.refusals += 1
            raise QueryFailed(f"Code: {self.code}. DB::Exception: cannot parse", self.code)
        return super().insert_json_rows(table, rows, columns, token)

    def accepts_inserts(self) -> bool:
        return not self.broken and super().accepts_inserts()


@pytest.fixture
def rejecting(services: Services) -> RejectingWarehouse:
    """Ships only when a test says so."""
    rejecting = RejectingWarehouse(services.warehouse)
    services.shipper._warehouse = rejecting
    return rejecting


def send(tenant: Tenant, names: Sequence[str]) -> None:
    events = [{"websiteId": tenant.website_id, "event": name, "userId": "u"} for name in names]
    answer = tenant.client.post("/api/v1/events/batch", json={"events": events})
    assert answer.json()["accepted"] == len(names)


def names_of(events: list[dict[str, Any]]) -> list[str]:
    return sorted(event["name"] for event in events)


def test_bad_rows_are_found_by_halving_and_all_others_are_stored_once(
    rejecting: RejectingWarehouse,
    workspace: Tenant,
    stored: Stored,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shipper_module, "_PIECE_BYTES", 20_000)
    good = [f"e{number}" for number in range(150)]
    send(workspace, [*good[:70], "bad1", *good[70:110], "bad2", *good[110:]])
    assert names_of(stored()) == sorted(good)
    entries = refused(workspace)
    assert {(entry["reason"], entry["route"], entry["code"]) for entry in entries} == {
        ("unshippable", "events", "refused_by_event_store")
    }
    assert "cannot parse" in entries[0]["errors"][0]["message"]
    assert rejecting.refusals < 40
    counts = counted(workspace)
    assert (counts["received"], counts["stored"], counts["quarantined"]) == (152, 150, 2)


@pytest.mark.every_database
def test_a_quarantined_row_is_stored_after_a_replay(
    rejecting: RejectingWarehouse, workspace: Tenant, stored: Stored
) -> None:
    send(workspace, ["e", "bad"])
    assert names_of(stored()) == ["e"]
    [entry] = refused(workspace)
    rejecting.insert_json_rows = super(RejectingWarehouse, rejecting).insert_json_rows  # type: ignore[method-assign]
    assert workspace.client.post(f"/api/events/refused/{entry['number']}/replay").status_code == 204
    assert names_of(stored()) == ["bad", "e"]
    counts = counted(workspace)
    assert (counts["stored"], counts["quarantined"], refused(workspace)) == (2, 0, [])


@pytest.mark.parametrize("limits", [{"quarantine_rows": 60}])
def test_no_refused_event_takes_the_place_of_one_that_was_accepted(
    rejecting: RejectingWarehouse, workspace: Tenant, server: TestClient[Litestar], stored: Stored
) -> None:
    """Anyone may send wrong items to a website; those of a backend stay before theirs."""
    send(workspace, ["bad1", "e", "bad2"])
    assert names_of(stored()) == ["e"]
    site = workspace.website_id
    wrong = {"websiteId": site, "event": "of-backend", "wrong": 1}
    write_key = write_key_of(workspace, site)
    for path in ("/api/v1/events", "/api/track", "/api/identify"):
        assert workspace.client.post(path, json=wrong).status_code == 422
    batch = {"websiteId": site, "events": [wrong]}
    assert workspace.client.post("/api/track", json=batch).json()["rejected"] == 1
    for call_type in ("track", "identify"):
        call = {"type": call_type, "note": "of-backend"}
        body = {"writeKey": write_key, "batch": [call]}
        assert len(visitor(server).post("/v1/batch", json=body).json()["rejected"]) == 1
    items = {"websiteId": site, "events": [{"n": n} for n in range(100)]}
    for _ in range(3):
        assert visitor(server).post("/api/track", json=items).json()["rejected"] == 100
    calls = {"writeKey": site, "batch": [{"type": "track", "n": n} for n in range(20)]}
    assert len(visitor(server).post("/v1/batch", json=calls).json()["rejected"]) == 20
    left = refused(workspace, pageSize=100)
    assert len([entry for entry in left if entry["reason"] == "unshippable"]) == 2
    assert len([entry for entry in left if "of-backend" in entry["item"]]) == 6
    assert 8 < len(left) <= 60
    numbers = [entry["number"] for entry in left]
    assert numbers[0] == max(numbers) == numbers[-1] + 327
    counts = counted(workspace)
    assert counts["dropped"] == 328 - len(left)


@pytest.mark.parametrize("code", [BAD_ROW, 243])
def test_an_engine_that_can_write_nothing_quarantines_nothing(
    services: Services, rejecting: RejectingWarehouse, workspace: Tenant, stored: Stored, code: int
) -> None:
    rejecting.broken, rejecting.code = True, code
    send(workspace, ["e1", "e2"])
    assert not services.shipper.wait_until_shipped(0.5)
    counts = counted(workspace)
    assert (counts["waiting"], counts["quarantined"]) == (2, 0)
    rejecting.broken = False
    assert names_of(stored()) == ["e1", "e2"]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(36, id="bad settings", marks=pytest.mark.full("each code")),
        pytest.param(60, id="no table"),
        pytest.param(201, id="quota", marks=pytest.mark.full("each code")),
        pytest.param(241, id="memory"),
        pytest.param(469, id="constraint", marks=pytest.mark.full("each code")),
    ],
)
def test_no_row_is_quarantined_for_the_state_of_a_server(
    services: Services, rejecting: RejectingWarehouse, workspace: Tenant, stored: Stored, code: int
) -> None:
    """The server refuses some rows, such as those of one shard, and accepts others."""
    rejecting.code = code
    send(workspace, ["bad", "e1", "e2"])
    assert not services.shipper.wait_until_shipped(0.5)
    assert counted(workspace)["quarantined"] == 0
    rejecting.insert_json_rows = super(RejectingWarehouse, rejecting).insert_json_rows  # type: ignore[method-assign]
    assert names_of(stored()) == ["bad", "e1", "e2"]
    counts = counted(workspace)
    assert (counts["received"], counts["stored"], counts["quarantined"]) == (3, 3, 0)


def test_a_crash_while_a_shipment_is_halved_stores_no_row_twice(
    services: Services, workspace: Tenant, stored: Stored
) -> None:
    rejecting = RejectingWarehouse(services.warehouse)
    with services.shipper.paused():
        send(workspace, [*(f"e{number}" for number in range(40)), "bad", "last"])
        for _ in range(30):  # one step of a new process each, killed after its insert
            crashing = Shipper(services.database, rejecting, services.clock)
            finish = crashing._outbox._finish
            steps = iter([finish])

            def crash(*args: Any, steps: Any = steps) -> None:
                next(steps, _die)(*args)

            crashing._outbox._finish = crash  # type: ignore[method-assign]
            try:
                crashing.ship()
                break
            except _Crash:
                continue
    assert names_of(stored()) == sorted([*(f"e{number}" for number in range(40)), "last"])
    assert len(refused(workspace)) == 1
    assert counted(workspace)["quarantined"] == 1


class _Crash(Exception):
    pass


def _die(*_: Any) -> None:
    raise _Crash


def waiting_rows(data: Path) -> int:
    database = Database(f"sqlite:///{data / 'penstock.sqlite3'}")
    with database.read() as db:
        bundles = db.execute(select(outbox.c.lines).where(outbox.c.target == "events")).scalars()
        rows = sum(len(lines.split("\n")) for lines in bundles)
    database.close()
    return rows


@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("kills a service of its own")
@pytest.mark.full("kills beyond one of each store")
def test_the_counts_balance_after_kills(tmp_path: Path) -> None:
    data = tmp_path / "data"
    accepted, key = 0, None
    for kill in range(3):
        with Served(data, key=key) as service:
            if key is None:
                key, website_id = service.first_account()
            event = {"websiteId": website_id, "event": "e"}
            for batch in range(4):
                events = [
                    {**event, "userId": "u", "eventId": f"{batch}-{n}"}
                    for n in range(kill * 10, kill * 10 + 20)
                ]
                body = {"events": [*events, event]}
                answer = service.client.post("/api/v1/events/batch", json=body).json()
                accepted += answer["accepted"]
            service.kill()
    waiting = waiting_rows(data)
    with Served(data, key=key) as service:
        for _ in range(200):
            [counts] = service.client.get("/api/events/counts").json()["data"]
            if not counts["waiting"]:
                break
        parts = ("stored", "duplicates", "refused", "quarantined", "waiting")
        assert counts["received"] == sum(counts[part] for part in parts) == 3 * 4 * 21
        assert counts["refused"] == 12
        assert counts["stored"] == accepted == 4 * 40
        assert waiting <= accepted
        visitors = service.client.get("/api/visitors", params={"websiteId": website_id}).json()
        assert [entry["events"] for entry in visitors["data"]] == [accepted]
