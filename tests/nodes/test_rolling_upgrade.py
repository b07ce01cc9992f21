"""Two nodes that are upgraded in turn, while clients send to both."""

from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from penstock.warehouse.client import Warehouse
from tests.clickhouse_server import ClickHouseServer
from tests.events.test_kills import Client, Service, posting
from tests.events.test_nodes import Nodes
from tests.nodes.next_release import next_release
from tests.postgres import PostgresServer
from tests.processes import new_python
from tests.serving import Served, penstock
from tests.waiting import eventually

CLIENTS = 4
_REFUSED = "A newer version of Penstock is upgrading the stores, or has upgraded them"
_REASON = "A newer version of Penstock has upgraded the stores: upgrade this node too."


def node_settings(database_url: str, warehouse_url: str) -> dict[str, str]:
    return {
        "PENSTOCK_DATABASE_URL": database_url,
        "PENSTOCK_WAREHOUSE_URL": warehouse_url,
        "PENSTOCK_SECRET_KEYS": urlsafe_b64encode(b"k" * 32).decode(),
        "PENSTOCK_NODES": "2",
    }


@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("starts four nodes")
@pytest.mark.full("several nodes")
def test_two_nodes_are_upgraded_in_turn_under_load(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    with ExitStack() as stack:
        clickhouse = ClickHouseServer(tmp_path / "clickhouse")
        stack.callback(clickhouse.stop)
        warehouse = Warehouse(data=tmp_path, url=clickhouse.url)
        stack.callback(warehouse.close)
        settings = node_settings(postgres_server.fresh(), clickhouse.url)
        upgrade_in_turn(tmp_path, settings, warehouse)


def upgrade_in_turn(folder: Path, settings: Mapping[str, str], warehouse: Warehouse) -> None:
    """Upgrade the second of two nodes, then the first, while clients post to both.

    Everything that a node has acknowledged is stored once. The first node accepts nothing and
    reports nothing from the upgrade of the stores until its own.
    """
    newer = {**settings, **next_release(folder / "next")}
    served = [Served(folder / f"node-{number}", **settings) for number in range(2)]
    try:
        key, website_id = served[0].first_account()
        nodes = Nodes(*(each.url for each in served))
        clients = [Client(number, key, website_id) for number in range(CLIENTS)]
        with posting(clients, cast("Service", nodes)):
            _await_answers(clients)
            for number in (1, 0):
                assert served[number].stop() == 0
                data = folder / f"node-{number}"
                served[number] = Served(data, start=new_python, key=key, **newer)
                nodes.is_at(number, served[number].url)
                if number:
                    _assert_refuses_everything(served[0], website_id)
                _await_answers(clients)
                assert _entered(served[number].client) == CLIENTS
        served[0].await_shipped()
        _, stored = warehouse.query("SELECT name, event_id FROM events")
        assert _entered(served[0].client) == CLIENTS
    finally:
        for each in served:
            each.kill()
    acknowledged = {pair for client in clients for pair in client.acknowledged.items()}
    pairs = Counter((name, event) for name, event in stored)
    assert acknowledged <= set(pairs), "lost"
    assert max(pairs.values()) == 1, "twice"
    refused = penstock("migrate", "--data", str(folder / "node-0"), **settings)
    assert "a newer Penstock has upgraded it" in refused.stderr


def _await_answers(clients: list[Client]) -> None:
    """Wait until each client has got another answer."""
    before = [len(client.acknowledged) for client in clients]
    eventually(
        lambda: all(
            len(client.acknowledged) > count for client, count in zip(clients, before, strict=True)
        )
    )


def _assert_refuses_everything(node: Served, website_id: str) -> None:
    ready = node.client.get("/health/ready")
    assert (ready.status_code, ready.json()["reason"]) == (503, _REASON)
    event = {"websiteId": website_id, "visitorId": "ann", "event": "opened"}
    for answer in (node.client.post("/api/v1/events", json=event), _report(node.client)):
        assert answer.status_code == 503, answer.text
        assert answer.json()["detail"].startswith(_REFUSED)
        assert answer.headers["retry-after"] == "5"


def _report(client: httpx.Client) -> httpx.Response:
    steps = [{"type": "Event", "value": "*"}, {"type": "Event", "value": "paid"}]
    return client.post("/api/funnels/preview", json={"steps": steps})


def _entered(client: httpx.Client) -> int:
    answer: Any = _report(client).raise_for_status().json()
    assert "not_fresh" not in answer["coverage"]["noteCodes"]
    return int(answer["aggregate"]["entered"])
