"""Deletions on a ClickHouse server."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from penstock.warehouse import migrations
from penstock.warehouse.client import Warehouse
from tests.clickhouse_server import ClickHouseServer
from tests.events.deletions.conftest import Delete, finished, request_deletion
from tests.funnels.scenario import Scene
from tests.proxy import FaultyProxy
from tests.waiting import eventually

pytestmark = pytest.mark.full("repeats deletions on a server, and with very many IDs")


@pytest.fixture
def metadb_url(sqlite_url: str) -> str:
    return sqlite_url


@pytest.fixture
def proxy(clickhouse: ClickHouseServer) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(clickhouse.port)
    yield proxy
    proxy.close()


@pytest.fixture
def warehouse(clickhouse: ClickHouseServer, proxy: FaultyProxy, tmp_path: Path) -> Warehouse:
    """A warehouse behind the proxy. The application closes it."""
    warehouse = Warehouse(data=tmp_path, url=clickhouse.url_behind(proxy.port))
    migrations.migrate(warehouse)
    return warehouse


def test_a_deletion_that_fails_does_not_delay_the_next(
    scene: Scene, proxy: FaultyProxy, delete: Delete
) -> None:
    unlucky = f"unlucky-{uuid4().hex}"
    scene.story("0/A", visitor=unlucky)
    scene.story("0/A", visitor="ben")
    assert scene.client.get(f"/api/visitors/{unlucky}").json()["events"] == 1  # it is stored
    proxy.refuse_requests(unlucky)
    waiting = request_deletion(scene.client, scene.tenant.website_id, visitorId=unlucky)
    eventually(lambda: scene.client.get(f"/api/deletions/{waiting['id']}").json()["error"])
    done = delete(visitorId="ben")
    assert (done["error"], done["eventsRemoved"]) == (None, 1)
    waiting = scene.client.get(f"/api/deletions/{waiting['id']}").json()
    assert waiting["state"] == "running"
    proxy.refuse_requests(None)
    assert finished(scene.client, waiting["id"])["eventsRemoved"] == 1


@pytest.mark.slow("sends 5,000 events")
def test_a_user_with_thousands_of_ids_is_shown_and_deleted(scene: Scene, delete: Delete) -> None:
    website, ids = scene.tenant.website_id, [f"{number:-<120}" for number in range(5_000)]
    for start in range(0, len(ids), 1_000):
        events = [
            {"websiteId": website, "event": "opened", "visitorId": visitor, "userId": "ann"}
            for visitor in ids[start : start + 1_000]
        ]
        answer = scene.client.post("/api/v1/events/batch", json={"events": events})
        assert answer.json()["accepted"] == len(events), answer.text[:1000]
    visitor = f"/api/visitors/{ids[-1]}"
    assert scene.client.get(visitor).json()["events"] == len(ids)
    timeline = scene.client.get(f"{visitor}/events").json()
    assert timeline["total"] == len(ids)
    personal = scene.client.get(
        "/api/personal-data", params={"websiteId": website, "userId": "ann"}
    )
    assert personal.status_code == 200, personal.text
    done = delete(userId="ann")
    assert (done["error"], done["eventsRemoved"]) == (None, len(ids))
