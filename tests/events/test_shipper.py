"""Outbox to warehouse: each row exactly once, whatever fails in between, on both databases."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import pytest
from sqlalchemy import func, insert, select

from penstock.base.clock import system_clock
from penstock.base.errors import StoreUnavailable
from penstock.base.ids import EventId, ScopeId, VisitorId, WebsiteId, new_id
from penstock.events import shipper as shipper_module
from penstock.events.model import Kind, NewEvent, Source
from penstock.events.outbox import store as outbox_module
from penstock.events.rows import event_row
from penstock.events.shipper import Shipper
from penstock.metadb.database import Database
from penstock.metadb.tables import outbox, shipments
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import QueryFailed
from tests import loops
from tests.waiting import PATIENCE_S, eventually


@pytest.fixture
def website() -> WebsiteId:
    return WebsiteId(new_id("web", system_clock()))


def put(database: Database, website: WebsiteId, numbers: Sequence[int]) -> None:
    """What the intake leaves behind after it acknowledged events."""
    now_ms = system_clock()
    rows = [
        event_row(
            NewEvent(
                website, ScopeId(website), Kind.EVENT, f"e{n}", Source.SERVER,
                now_ms, now_ms, now_ms, "v", None, b"",
            ),
            EventId(f"evt_{n}"), VisitorId("v"),
        )
        for n in numbers
    ]  # fmt: skip
    with database.write() as db:
        db.execute(insert(outbox), [{"target": "events", "lines": row} for row in rows])


def shipped_names(warehouse: Warehouse, website: WebsiteId) -> list[str]:
    statement = (
        "SELECT name FROM events WHERE website_id = {website:String} "
        "ORDER BY toUInt64(substring(name, 2))"
    )
    return [name for (name,) in warehouse.query(statement, {"website": website})[1]]


def left(database: Database) -> tuple[int, int]:
    """Rows in the outbox, shipments under way."""
    with database.read() as db:
        rows, cut = (
            db.execute(select(func.count()).select_from(table)).scalar_one()
            for table in (outbox, shipments)
        )
    return rows, cut


class Breaking(Warehouse):
    """A warehouse whose next inserts fail: before anything was stored, or after everything was."""

    def __init__(self, whole: Warehouse, *failures: str) -> None:
        vars(self).update(vars(whole))
        self.failures = list(failures)
        self.inserts: list[tuple[bytes, str]] = []

    def insert_json_rows(self, table: str, rows: bytes, columns: Sequence[str], token: str) -> bool:
        self.inserts.append((rows, token))
        failure = self.failures.pop(0) if self.failures else None
        added = failure != "before" and super().insert_json_rows(table, rows, columns, token)
        if failure:
            raise QueryFailed("gone", 0)
        return added


def names(numbers: Sequence[int]) -> list[str]:
    return [f"e{n}" for n in numbers]


def test_shipped_rows_leave_the_outbox(
    database: Database, warehouse: Warehouse, website: WebsiteId
) -> None:
    put(database, website, range(100))
    Shipper(database, warehouse, system_clock).ship()
    assert (shipped_names(warehouse, website), left(database)) == (names(range(100)), (0, 0))


@pytest.mark.parametrize("failure", ["before", "after"])
@pytest.mark.every_database
def test_a_failed_shipment_is_repeated_with_the_same_rows_and_number(
    database: Database, warehouse: Warehouse, website: WebsiteId, failure: str
) -> None:
    put(database, website, range(10))
    breaking = Breaking(warehouse, failure, failure, failure)
    for _ in range(3):
        with pytest.raises(QueryFailed):
            Shipper(database, breaking, system_clock).ship()
        put(database, website, [100 + len(breaking.inserts)])
    Shipper(database, breaking, system_clock).ship()
    assert len(set(breaking.inserts[:4])) == 1, (
        "the same rows under the same token, whatever came in meanwhile"
    )
    assert (shipped_names(warehouse, website), left(database)) == (
        names([*range(10), 101, 102, 103]),
        (0, 0),
    )


@pytest.mark.every_database
def test_a_crash_between_cutting_and_sending_loses_nothing(
    database: Database, warehouse: Warehouse, website: WebsiteId
) -> None:
    put(database, website, range(10))
    crashed = Shipper(database, warehouse, system_clock)
    newest = crashed._outbox.newest()
    assert newest is not None
    assert crashed._outbox.cut(shipper_module.Target.EVENTS, newest, 4)
    assert left(database) == (10, 1)
    Shipper(database, warehouse, system_clock).ship()
    assert (shipped_names(warehouse, website), left(database)) == (names(range(10)), (0, 0))


def test_large_shipments_go_in_pieces_that_a_repeat_recognises(
    database: Database, warehouse: Warehouse, website: WebsiteId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipper_module, "_PIECE_BYTES", 2000)
    put(database, website, range(50))
    breaking = Breaking(warehouse, "", "", "after")
    with pytest.raises(QueryFailed):
        Shipper(database, breaking, system_clock).ship()
    Shipper(database, breaking, system_clock).ship()
    assert breaking.inserts[:3] == breaking.inserts[3:6]
    assert len({token for _, token in breaking.inserts}) > 5
    assert (shipped_names(warehouse, website), left(database)) == (names(range(50)), (0, 0))


def test_another_database_before_the_same_warehouse_has_numbers_of_its_own(
    database: Database, warehouse: Warehouse, website: WebsiteId, tmp_path: Path
) -> None:
    put(database, website, range(3))
    Shipper(database, warehouse, system_clock).ship()
    other = Database(f"sqlite:///{tmp_path / 'other.sqlite3'}")
    other.migrate()
    put(other, website, range(3, 6))
    Shipper(other, warehouse, system_clock).ship()
    assert shipped_names(warehouse, website) == names(range(6))
    other.close()


@pytest.mark.slow("ships forty shipments")
@pytest.mark.full("several nodes")
def test_shippers_of_several_nodes_share_the_outbox(
    postgres_url: str, warehouse: Warehouse, website: WebsiteId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipper_module, "_SHIPMENT_BUNDLES", 7)
    nodes = [Database(postgres_url) for _ in range(3)]
    put(nodes[0], website, range(300))

    async def ship_on_all() -> None:
        async with anyio.create_task_group() as tasks:
            for node in nodes:
                tasks.start_soon(
                    anyio.to_thread.run_sync, Shipper(node, warehouse, system_clock).ship
                )

    loops.run(ship_on_all)
    assert (shipped_names(warehouse, website), left(nodes[0])) == (names(range(300)), (0, 0))
    for node in nodes:
        node.close()


def test_another_node_takes_a_shipment_over_from_one_that_hangs(
    postgres_url: str, warehouse: Warehouse, website: WebsiteId, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [Database(postgres_url) for _ in range(2)]
    put(nodes[0], website, range(10))
    hanging, other = (Shipper(node, warehouse, system_clock) for node in nodes)
    newest = hanging._outbox.newest()
    assert newest is not None
    assert hanging._outbox.cut(shipper_module.Target.EVENTS, newest, 100)
    hold = ExitStack()
    with monkeypatch.context() as patch:  # the lease of this node alone ends so soon
        patch.setattr(outbox_module, "LEASE_S", 0.2)
        shipment = hold.enter_context(hanging._outbox.next_shipment(shipper_module.Target.EVENTS))
    assert shipment is not None
    eventually(lambda: other.ship() is None and left(nodes[1]) == (0, 0))
    shipment.shipped = len(shipment.bundles)
    with pytest.raises(StoreUnavailable):
        hold.close()
    hanging.ship()
    assert (shipped_names(warehouse, website), left(nodes[0])) == (names(range(10)), (0, 0))
    for node in nodes:
        node.close()


@pytest.mark.full("several nodes")
def test_shipments_are_complete_below_the_first_open_one(
    postgres_url: str, warehouse: Warehouse, website: WebsiteId
) -> None:
    """A node ships a later shipment while another one still ships an earlier one."""
    nodes = [Database(postgres_url) for _ in range(2)]
    slow, other = (Shipper(node, warehouse, system_clock) for node in nodes)
    before = slow.shipments()
    assert before.complete == before.newest
    with ExitStack() as hold:
        put(nodes[0], website, range(5))
        newest = slow._outbox.newest()
        assert newest is not None
        assert slow._outbox.cut(shipper_module.Target.EVENTS, newest, 100)
        shipment = hold.enter_context(slow._outbox.next_shipment(shipper_module.Target.EVENTS))
        assert shipment is not None
        put(nodes[1], website, range(5, 10))
        other.ship()
        assert shipped_names(warehouse, website) == names(range(5, 10))
        held = other.shipments()
        assert held.complete == shipment.number - 1 < shipment.number < held.newest
    slow.ship()
    after = other.shipments()
    assert after.complete == after.newest
    assert (shipped_names(warehouse, website), left(nodes[0])) == (names(range(10)), (0, 0))
    numbers = "SELECT DISTINCT name, shipment FROM events WHERE website_id = {website:String}"
    by_name = dict(warehouse.query(numbers, {"website": website})[1])
    assert all(before.newest < number <= after.newest for number in by_name.values())
    assert len(set(by_name.values())) > 1
    for node in nodes:
        node.close()


@pytest.mark.full("several nodes")
def test_shipments_become_visible_in_the_order_of_their_numbers(
    postgres_url: str, website: WebsiteId, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [Database(postgres_url) for _ in range(2)]
    first, other = (Shipper(node, warehouse, system_clock) for node in nodes)
    put(nodes[0], website, range(5))
    newest = first._outbox.newest()
    assert newest is not None
    new_shipment, visible = outbox_module._new_shipment, list[bool]()
    cut_later = Thread(target=other._outbox.cut, args=(shipper_module.Target.EVENTS, newest, 1))

    def number_slowly(*arguments: Any) -> int:
        monkeypatch.setattr(outbox_module, "_new_shipment", new_shipment)
        number = new_shipment(*arguments)
        cut_later.start()
        cut_later.join(0.5)
        visible.append(other.shipments().newest >= number)
        return number

    monkeypatch.setattr(outbox_module, "_new_shipment", number_slowly)
    assert first._outbox.cut(shipper_module.Target.EVENTS, newest, 1)
    cut_later.join(PATIENCE_S)
    assert visible == [False]
    for shipper in (first, other):
        shipper.ship()
    assert left(nodes[0]) == (0, 0)
    for node in nodes:
        node.close()


async def wait_while_running(
    shipper: Shipper, database: Database, website: WebsiteId
) -> list[bool]:
    async with shipper.running():
        shipper.wake()
        first = await anyio.to_thread.run_sync(shipper.wait_until_shipped, PATIENCE_S)
        put(database, website, range(10, 20))
        return [first, await anyio.to_thread.run_sync(shipper.wait_until_shipped, PATIENCE_S)]


def test_waiting_ends_when_all_events_acknowledged_before_are_shipped(
    database: Database, warehouse: Warehouse, website: WebsiteId
) -> None:
    put(database, website, range(10))
    assert loops.run(
        wait_while_running, Shipper(database, warehouse, system_clock), database, website
    ) == [True, True]
    assert (shipped_names(warehouse, website), left(database)) == (names(range(20)), (0, 0))


def test_the_shipper_continues_when_the_warehouse_is_back(
    database: Database, warehouse: Warehouse, website: WebsiteId
) -> None:
    put(database, website, range(10))
    breaking = Breaking(warehouse, "before", "after", "before")
    assert loops.run(
        wait_while_running, Shipper(database, breaking, system_clock), database, website
    ) == [True, True]
    assert (shipped_names(warehouse, website), left(database)) == (names(range(20)), (0, 0))


def test_waiting_is_bounded(database: Database, warehouse: Warehouse, website: WebsiteId) -> None:
    put(database, website, range(10))
    idle = Shipper(database, warehouse, system_clock)
    assert idle.wait_until_shipped(0.2) is False
    assert left(database) == (10, 0)


def test_a_clean_stop_ships_waiting_rows(
    database: Database, warehouse: Warehouse, website: WebsiteId
) -> None:
    async def start_and_stop(shipper: Shipper) -> None:
        async with shipper.running():
            put(database, website, range(10))

    loops.run(start_and_stop, Shipper(database, warehouse, system_clock))
    assert (shipped_names(warehouse, website), left(database)) == (names(range(10)), (0, 0))
