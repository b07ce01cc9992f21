"""An upgrade gives stored page paths their canonical form, also across kills; no event is lost."""

import json
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import insert, select

from penstock.app import Services
from penstock.metadb.tables import outbox, quarantine
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import NotEnoughDisk
from tests.clickhouse_server import ClickHouseServer
from tests.serving import Served, penstock, query_warehouse, run_module
from tests.sharded import ShardedWarehouse
from tests.stores.test_upgrade import expected, release_0_1_0
from tests.tenant import Tenant

__all__ = ["release_0_1_0"]

upgrade = import_module("penstock.warehouse.migrations.0008_page_paths").upgrade

SPELLINGS = {
    "/café": ["/café", "/caf%C3%A9", "/caf%c3%a9", "/cafe\u0301", "/cafe%CC%81"],
    "/a%20b": ["/a b", "/a%20b", "/x/../a b"],
    "/~ann": ["/~ann", "/%7Eann", "/./~ann"],
    "/it's": ["/it's"],
}
PATHS = {spelling: path for path, spellings in SPELLINGS.items() for spelling in spellings}
EACH = 4
"""Events with each spelling, half of them page views."""

TIMES = ("occurred_at", "received_at", "stated_at")

COUNT_BY_PATH = """SELECT path, name, kind::String, count(), uniqExact(event_id) FROM events
WHERE website_id = '{website}' AND path NOT IN ('', '/pricing') GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""
LISTED = """SELECT name, kind::String, sum(events) FROM catalogue
WHERE website_id = '{website}' AND property = '' AND kind = 'pageview'
    AND name != '/pricing' GROUP BY 1, 2 ORDER BY 1"""


def stored_rows(website: str, scope: str) -> list[dict[str, Any]]:
    return [
        {
            "website_id": website,
            "kind": "pageview" if number % 2 else "event",
            "name": spelling if number % 2 else "ordered",
            "path": spelling,
            "source": "browser",
            "scope_id": scope,
            "visitor_id": f"visitor-{number}",
            "event_id": f"evt_{website}_{index:02}{number}",
            "properties": '{"plan":"pro"}',
            **dict.fromkeys(
                ("occurred_at", "received_at", "stated_at"),
                f"2025-01-01 00:00:{index:02}.00{number}",
            ),
        }
        for index, spelling in enumerate(PATHS)
        for number in range(EACH)
    ]


def counts_by_path() -> list[list[Any]]:
    counts: list[list[Any]] = []
    for path, spellings in sorted(SPELLINGS.items(), key=lambda item: item[0].encode()):
        events = len(spellings) * EACH // 2
        counts += sorted(
            [[path, path, "pageview", events, events], [path, "ordered", "event", events, events]]
        )
    return counts


def listed() -> list[list[Any]]:
    paths = sorted(SPELLINGS, key=str.encode)
    return [[path, "pageview", len(SPELLINGS[path]) * EACH // 2] for path in paths]


def insert_statement(rows: list[dict[str, Any]], token: str = "none") -> str:
    lines = "\n".join(map(json.dumps, rows))
    settings = f"SETTINGS insert_deduplication_token = '{token}'"
    return f"INSERT INTO events ({', '.join(rows[0])}) {settings} FORMAT JSONEachRow {lines}"


@pytest.fixture
def old_data(starts_service: None, release_0_1_0: Path) -> Path:
    """A data folder of 0.1.0 with paths as they were sent."""
    website = expected(release_0_1_0)["websiteId"]
    query_warehouse(release_0_1_0, insert_statement(stored_rows(website, website)))
    return release_0_1_0


def assert_canonical(data: Path) -> None:
    """Every event is there once under its path, in the event store, reports and the catalogue."""
    website = expected(data)["websiteId"]
    by_path, names = query_warehouse(
        data, COUNT_BY_PATH.format(website=website), LISTED.format(website=website)
    )
    assert by_path == counts_by_path()
    assert names == listed()
    with Served(data) as service:
        service.client.headers["Authorization"] = f"Bearer {expected(data)['key']}"
        step = {"type": "Pageview", "value": "/caf%C3%A9"}
        ordered = {
            "type": "Event",
            "value": "ordered",
            "filters": [{"property": "$path", "operator": "equals", "value": "/cafe\u0301"}],
        }
        funnel = {"name": "Café", "steps": [step, ordered]}
        saved = service.client.post("/api/funnels", json=funnel).raise_for_status().json()
        report = service.client.get(f"/api/funnels/{saved['id']}/results").raise_for_status().json()
        assert [row["count"] for row in report["aggregate"]["steps"]] == [2, 0]
        assert service.client.get("/health/ready").json()["missingEvents"]["events"] == 0
        assert service.stop() == 0
    verified = penstock("verify", "--data", str(data))
    assert verified.returncode == 0, verified.stdout + verified.stderr


@pytest.mark.slow("upgrades both stores")
def test_an_upgrade_gives_stored_paths_their_form_and_says_how_much_disk_it_needs(
    old_data: Path,
) -> None:
    upgraded = penstock("migrate", "--data", str(old_data))
    assert upgraded.returncode == 0, upgraded.stderr
    [line] = [line for line in upgraded.stderr.splitlines() if "needs_disk_bytes" in line]
    assert json.loads(line)["events"] == (len(PATHS) - len(SPELLINGS)) * EACH
    assert_canonical(old_data)


@pytest.mark.slow("a process for each statement")
@pytest.mark.full("kills beyond one of each store")
def test_an_upgrade_of_paths_killed_after_each_statement_goes_on(old_data: Path) -> None:
    kills = 0
    while True:
        run = run_module("tests.stores.killed_page_paths", str(kills + 1), str(old_data))
        if run.returncode == 0:
            break
        assert run.returncode == -signal.SIGKILL, run.stderr
        kills += 1
    assert kills > 5
    assert_canonical(old_data)


@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("upgrades both stores")
def test_waiting_rows_get_their_form_and_a_shipment_that_arrived_is_not_stored_twice(
    release_0_1_0: Path,
) -> None:
    website = expected(release_0_1_0)["websiteId"]
    rows = stored_rows(website, website)
    half = len(rows) // 2
    with sqlite3.connect(release_0_1_0 / "penstock.sqlite3") as database:
        [[installation]] = database.execute("SELECT id FROM installation")
        database.execute("INSERT INTO shipments (id, target, cut_at) VALUES (500, 'events', 0)")
        for index, (shipment, part) in enumerate(((500, rows[:half]), (None, rows[half:]))):
            lines = "\n".join(json.dumps(row, ensure_ascii=bool(index)) for row in part)
            columns = "INSERT INTO outbox (target, lines, shipment_id) VALUES ('events', ?, ?)"
            database.execute(columns, (lines, shipment))
    # Stored, and the process was killed before the metadata database knew.
    query_warehouse(release_0_1_0, insert_statement(rows[:half], f"{installation}-500-0"))
    with Served(release_0_1_0) as service:
        service.await_shipped()
        assert service.stop() == 0
    assert_canonical(release_0_1_0)


@pytest.mark.every_database
def test_waiting_and_quarantined_rows_get_their_form_and_keep_all_else(
    workspace: Tenant, services: Services
) -> None:
    before = (
        '{"kind":"pageview","name":"/caf%C3%A9","n":12345678901234567890.10,"path":"/caf%C3%A9"}'
    )
    after = '{"kind":"pageview","name":"/café","n":12345678901234567890.10,"path":"/café"}'
    other = '{"kind":"event","name":"/caf%C3%A9","properties":"{\\"path\\":\\"/a b\\"}"}'
    with services.database.write() as db:
        values = {"at": 0, "code": "", "bytes": 0, "errors": [], "sender": {}}
        for number, (reason, content) in enumerate(
            [("unshippable", before), ("refused", before), ("unshippable", other)], start=900
        ):
            ids = {"id": number, "workspace_id": workspace.id, "origin": "events"}
            db.execute(insert(quarantine).values(**ids, **values, reason=reason, content=content))
        for number in range(-300, 0):
            lines = f"{other}\n{before}" if number % 2 else other
            row = {"id": number, "target": "events", "lines": lines, "put_at": 0}
            db.execute(insert(outbox).values(row))
        with Operations.context(MigrationContext.configure(db)):
            import_module("penstock.metadb.migrations.versions.0022_page_paths").upgrade()
        contents = select(quarantine.c.content).where(quarantine.c.id >= 900)
        assert db.scalars(contents.order_by(quarantine.c.id)).all() == [after, before, other]
        waiting = db.execute(select(outbox.c.id, outbox.c.lines).where(outbox.c.id < 0)).all()
        assert len(waiting) == 300
        for number, lines in waiting:
            assert lines == (f"{other}\n{after}" if number % 2 else other)
        db.rollback()


@pytest.mark.slow("upgrades three forms of the event store")
@pytest.mark.usefixtures("starts_database")
class TestEngines:
    """The upgrade alone, over each form of the event store."""

    @pytest.fixture(
        params=[
            "embedded",
            pytest.param("server", marks=pytest.mark.full("repeats the upgrade on a server")),
            pytest.param("shards", marks=pytest.mark.full("several shards")),
        ]
    )
    def store(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Warehouse]:
        if request.param == "embedded":
            yield request.getfixturevalue("warehouse")
        elif request.param == "server":
            server: ClickHouseServer = request.getfixturevalue("clickhouse")
            with_tables = Warehouse(data=tmp_path, url=server.url)
            import_module("penstock.warehouse.migrations").migrate(with_tables)
            yield with_tables
            with_tables.close()
        else:
            sharded: ShardedWarehouse = request.getfixturevalue("sharded")
            yield sharded

    @pytest.fixture
    def website(self, store: Warehouse) -> str:
        website = f"web_{uuid4().hex}"
        rows = stored_rows(website, website)
        store.insert_json_rows(
            "events", b"\n".join(json.dumps(row).encode() for row in rows), list(rows[0]), website
        )
        return website

    def read(self, store: Warehouse, statement: str, website: str) -> list[list[Any]]:
        return [list(row) for row in store.query(statement.format(website=website))[1]]

    def test_paths_are_canonical_afterwards(self, store: Warehouse, website: str) -> None:
        for _ in range(2):
            upgrade(store)
            assert self.read(store, COUNT_BY_PATH, website) == counts_by_path()
            assert self.read(store, LISTED, website) == listed()

    def test_events_that_a_killed_run_inserted_again_are_there_once(
        self, store: Warehouse, website: str
    ) -> None:
        store.insert_selected(
            "events",
            "INSERT INTO events SELECT * REPLACE ('/café' AS path, if(kind = 'pageview', '/café', "
            "old.name::String) AS name) FROM events AS old WHERE old.path = '/caf%C3%A9' "
            "AND website_id = {website:String} AND event_id < {half:String} "
            "SETTINGS parallel_distributed_insert_select = 0",
            {"website": website, "half": f"evt_{website}_012"},
        )
        upgrade(store)
        assert self.read(store, COUNT_BY_PATH, website) == counts_by_path()
        assert self.read(store, LISTED, website) == listed()


def test_without_enough_disk_nothing_is_changed(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    if warehouse.folder is None:
        pytest.skip("a server checks its disks itself")
    rows = stored_rows("web_full", "web_full")
    content = b"\n".join(json.dumps(row).encode() for row in rows)
    warehouse.insert_json_rows("events", content, list(rows[0]), uuid4().hex)
    usage = shutil.disk_usage(warehouse.folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(NotEnoughDisk, match=r"of 32 events and needs 0\.0 GB of free disk"):
        upgrade(warehouse)
    [[spellings]] = warehouse.query("SELECT uniqExact(path) FROM events")[1]
    assert spellings == len(PATHS)
    monkeypatch.undo()
    upgrade(warehouse)
