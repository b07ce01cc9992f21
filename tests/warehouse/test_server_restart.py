"""No event is lost or duplicated when the server of the event store restarts."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from penstock.settings import Settings
from penstock.warehouse import migrations
from penstock.warehouse.client import Warehouse
from tests.clickhouse_server import RIGHTS, ClickHouseServer
from tests.tenant import Tenant
from tests.waiting import PATIENCE_S, eventually


@pytest.fixture
def clickhouse(starts_database: None, tmp_path: Path) -> Iterator[ClickHouseServer]:
    """A server for this test only."""
    server = ClickHouseServer(tmp_path / "clickhouse")
    yield server
    server.stop()


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.with_limits(fresh_wait_s=0.2)


@pytest.fixture
def warehouse(clickhouse: ClickHouseServer, tmp_path: Path) -> Warehouse:
    """A warehouse on that server. The application closes it."""
    warehouse = Warehouse(data=tmp_path, url=clickhouse.url)
    migrations.migrate(warehouse)
    return warehouse


def post(workspace: Tenant, number: int) -> None:
    event = {"websiteId": workspace.website_id, "visitorId": f"v{number}", "event": "opened"}
    assert workspace.client.post("/api/v1/events", json=event).status_code == 202


def stored(warehouse: Warehouse) -> tuple[int, int]:
    """The number of stored rows, and the number of distinct events."""
    [row] = warehouse.query("SELECT count(), uniqExact(event_id) FROM events")[1]
    return int(row[0]), int(row[1])


def make_funnel(client: httpx.Client) -> str:
    steps = [{"type": "Event", "value": "opened"}, {"type": "Event", "value": "bought"}]
    funnel = client.post("/api/funnels", json={"name": "Buy", "steps": steps})
    assert funnel.status_code == 201, funnel.text
    return f"/api/funnels/{funnel.json()['id']}/results"


def test_events_are_accepted_and_reports_fail_while_the_server_is_down(
    server: TestClient[Litestar],
    workspace: Tenant,
    warehouse: Warehouse,
    clickhouse: ClickHouseServer,
) -> None:
    results = make_funnel(workspace.client)
    post(workspace, 1)
    eventually(lambda: stored(warehouse) == (1, 1))
    clickhouse.kill()
    for number in (2, 3):
        post(workspace, number)
    answer = workspace.client.get(results)
    assert (answer.status_code, answer.json()["code"]) == (503, "warehouse_unavailable")
    assert int(answer.headers["Retry-After"]) > 0
    ready = server.get("/health/ready")
    assert (ready.status_code, ready.json()["warehouse"]) == (503, False)
    assert ready.json()["outbox"]["bundles"] > 0
    clickhouse.start()
    eventually(lambda: stored(warehouse) == (3, 3))
    assert server.get("/health/ready").json()["warehouse"] is True
    assert workspace.client.get(results).json()["aggregate"]["entered"] == 3


@pytest.mark.slow("restarts a server four times under load")
@pytest.mark.full("faults of a server")
def test_events_that_arrive_during_a_restart_are_stored_once(
    workspace: Tenant, warehouse: Warehouse, clickhouse: ClickHouseServer
) -> None:
    stop, posted = Event(), list[int]()

    def send() -> None:
        while not stop.is_set():
            post(workspace, len(posted))
            posted.append(1)

    sender = Thread(target=send)
    sender.start()
    try:
        for _ in range(4):
            before = len(posted)
            eventually(lambda before=before: len(posted) > before + 20)
            clickhouse.kill()
            clickhouse.start()
    finally:
        stop.set()
        sender.join(PATIENCE_S)
    count = len(posted)
    eventually(lambda: stored(warehouse) == (count, count))
    # The view fills the catalogue after the insert into the table.
    counted = "SELECT sum(events) FROM catalogue WHERE property = ''"
    eventually(lambda: warehouse.query(counted)[1] == [(count,)])


@pytest.mark.parametrize(
    "right",
    [
        "system.mutations",
        pytest.param("system.parts", marks=pytest.mark.full("each right")),
        pytest.param("system.processes", marks=pytest.mark.full("each right")),
    ],
)
def test_a_right_that_the_server_refuses_is_named(
    server: TestClient[Litestar],
    clickhouse: ClickHouseServer,
    capsys: pytest.CaptureFixture[str],
    right: str,
) -> None:
    assert server.get("/health/ready").json()["reason"] is None
    clickhouse.restart_with([granted for granted in RIGHTS if right not in granted])
    document = eventually(
        lambda: (answer := server.get("/health/ready").json())["warehouse"] and answer
    )
    assert "GRANT SELECT" in document["reason"]
    assert f"ON {right} to its user" in document["reason"]
    assert "event_store_right_missing" in capsys.readouterr().out
    clickhouse.restart_with(RIGHTS)
    eventually(
        lambda: (
            (answer := server.get("/health/ready").json())["warehouse"] and answer["reason"] is None
        )
    )
