"""Nodes whose clocks differ: times that they compare come from the metadata database."""

from collections.abc import Callable

import httpx
import pytest

from penstock.app import Services
from penstock.base.clock import Clock
from penstock.metadb.clock import DatabaseClock
from penstock.metadb.database import Database
from tests.conftest import ShiftedClock
from tests.events.deletions.conftest import finished, request_deletion
from tests.nodes.conftest import Node
from tests.tenant import Tenant

Nodes = tuple[Node, Node]

WRONG_MS = 2000
EVENTS = 6


@pytest.fixture(params=[WRONG_MS, -WRONG_MS], ids=["ahead", "behind"])
def wrong_ms(request: pytest.FixtureRequest) -> int:
    """Error of the second node's clock."""
    number: int = request.param
    return number


@pytest.fixture
def clock_of(wrong_ms: int) -> Callable[[str, Database], Clock]:
    def clock(name: str, database: Database) -> Clock:
        own = ShiftedClock()
        own.wrong_ms = wrong_ms if name == "second" else 0
        shared = DatabaseClock(database, own)
        shared.compare()
        return shared

    return clock


def post_events(client: httpx.Client, website_id: str, start: int) -> None:
    for number in range(start, start + EVENTS):
        event = {"websiteId": website_id, "visitorId": "ann", "event": f"e{number}"}
        assert client.post("/api/v1/events", json=event).status_code == 202


@pytest.mark.usefixtures("wrong_ms")
def test_a_deletion_removes_exactly_what_any_node_accepted_before_it(
    nodes: Nodes, workspace: Tenant
) -> None:
    for sender, deleter in (nodes, nodes[::-1]):
        website_id = workspace.website_id
        post_events(sender.client, website_id, 0)
        deletion = request_deletion(deleter.client, website_id, visitorId="ann")
        post_events(sender.client, website_id, EVENTS)
        assert finished(deleter.client, deletion["id"])["eventsRemoved"] == EVENTS
        rest = request_deletion(sender.client, website_id, visitorId="ann")
        assert finished(sender.client, rest["id"])["eventsRemoved"] == EVENTS


def test_a_wrong_clock_stands_in_ready_and_metrics(nodes: Nodes, wrong_ms: int) -> None:
    first, second = (node.server.get("/health/ready").json() for node in nodes)
    assert abs(first["clockAheadSeconds"]) < 0.25
    assert first["reason"] is None
    assert abs(second["clockAheadSeconds"] - wrong_ms / 1000) < 0.25
    direction = "ahead of" if wrong_ms > 0 else "behind"
    expected = f"The clock of this machine is 2.0 seconds {direction} the metadata database's:"
    assert second["reason"].startswith(expected)
    assert second["status"] == "ready"
    shown = [clock_metric(node.services) for node in nodes]
    assert abs(shown[0]) < 0.25
    assert abs(shown[1] - wrong_ms / 1000) < 0.25


def clock_metric(services: Services) -> float:
    [gauge] = [
        sample
        for room in services.rooms
        for gauge in room.gauges()
        for metric in gauge.collect()
        for sample in metric.samples
        if sample.name == "penstock_clock_ahead_seconds"
    ]
    return float(gauge.value)
