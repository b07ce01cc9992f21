"""Two nodes on one PostgreSQL and one server of the event store, one of which is killed at times.

`PENSTOCK_KILLS` says how often, divided by 20.
"""

import random
import time
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import cast

import httpx
import pytest

from penstock.warehouse.client import Warehouse
from tests.clickhouse_server import ClickHouseServer
from tests.events.test_kills import KILLS, Client, Service, posting
from tests.postgres import PostgresServer
from tests.serving import Served
from tests.waiting import PATIENCE_S, eventually


class _Running:
    """Some node always runs."""

    def clear(self) -> None:
        pass

    def wait(self, _: float) -> None:
        time.sleep(0.02)


class Nodes:
    """What a proxy before the nodes does: each request goes to one of them."""

    def __init__(self, *urls: str) -> None:
        self.running = _Running()
        self._clients = [self._of(url) for url in urls]

    def _of(self, url: str) -> httpx.Client:
        return httpx.Client(base_url=url, timeout=PATIENCE_S)

    @property
    def client(self) -> httpx.Client:
        return random.choice(self._clients)

    def is_at(self, node: int, url: str) -> None:
        self._clients[node] = self._of(url)


def start_job(node: Served, key: str) -> str:
    """The path of a job that a node has just accepted."""
    steps = [{"type": "Event", "value": "A"}, {"type": "Event", "value": "B"}]
    headers = {"Authorization": f"Bearer {key}", "Prefer": "respond-async"}
    answer = node.client.post("/api/funnels/preview", json={"steps": steps}, headers=headers)
    assert answer.status_code == 202, answer.text
    return answer.headers["location"]


def state_of(path: str, node: Served, key: str) -> str:
    answer = node.client.get(path, headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["state"])


@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("starts two nodes and kills one again and again")
@pytest.mark.full("several nodes")
def test_what_two_nodes_acknowledged_is_stored_once_though_one_is_killed(
    tmp_path: Path, postgres_server: PostgresServer, record_property: Callable[[str, object], None]
) -> None:
    kills = max(1, KILLS // 20)
    record_property("kills", kills)
    chance = random.Random(seed := random.randrange(2**32))
    clickhouse = ClickHouseServer(tmp_path / "clickhouse")
    settings = {
        "PENSTOCK_DATABASE_URL": postgres_server.fresh(),
        "PENSTOCK_WAREHOUSE_URL": clickhouse.url,
        "PENSTOCK_SECRET_KEYS": urlsafe_b64encode(b"k" * 32).decode(),
    }
    served: list[Served] = []
    jobs: list[str] = []
    try:
        served.extend(Served(tmp_path / f"node-{node}", **settings) for node in range(2))
        key, website_id = served[0].first_account()
        nodes = Nodes(*(each.url for each in served))
        clients = [Client(number, key, website_id) for number in range(4)]
        with posting(clients, cast("Service", nodes)):
            for _ in range(kills):
                time.sleep(chance.uniform(0, 0.6))
                killed = chance.randrange(2)
                jobs.append(start_job(served[killed], key))
                served[killed].kill()
                served[killed] = Served(tmp_path / f"node-{killed}", **settings)
                nodes.is_at(killed, served[killed].url)
        for path in jobs:  # whatever became of it: every node says the same
            eventually(lambda path=path: len({state_of(path, node, key) for node in served}) == 1)
        served[0].await_shipped()
        warehouse = Warehouse(data=tmp_path, url=clickhouse.url)
        stored = [tuple(row) for row in warehouse.query("SELECT name, event_id FROM events")[1]]
        counted = "SELECT sum(events) FROM catalogue WHERE property = ''"
        [[events_of_catalogue]] = warehouse.query(counted)[1]
        warehouse.close()
    finally:
        for each in served:
            each.kill()
        clickhouse.stop()
    acknowledged = {pair for client in clients for pair in client.acknowledged.items()}
    assert acknowledged <= set(stored), f"lost (seed {seed})"
    assert [pair for pair, times in Counter(stored).items() if times > 1] == [], "twice"
    assert {name for name, _ in stored} <= set().union(*(client.sent for client in clients))
    assert events_of_catalogue == len(stored)
    assert len(acknowledged) > kills
