"""Webhooks of two nodes: one at a time makes and sends the messages, and the other takes over."""

from collections.abc import Iterator

import pytest

from penstock.settings import Settings
from penstock.webhooks import store
from penstock.webhooks.model import Webhook
from tests.answers import body_of
from tests.conftest import ShiftedClock
from tests.funnels.scenario import Scene
from tests.nodes.conftest import Node
from tests.outbound.sinks import LOOPBACK
from tests.tenant import Tenant
from tests.waiting import eventually
from tests.webhooks.conftest import Shop
from tests.webhooks.receiver import Receiver, receiver

pytestmark = [
    pytest.mark.slow("waits for the workers of two nodes"),
]
UNITS = 60


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(
        update={"stored_outcomes": 3, "outbound_networks": LOOPBACK}
    ).with_limits(stored_outcomes_after_ms=0)


@pytest.fixture
def inbox() -> Iterator[Receiver]:
    with receiver() as own:
        yield own


def test_two_nodes_send_each_message_once_and_in_order(
    nodes: tuple[Node, Node], workspace: Tenant, clock: ShiftedClock, inbox: Receiver
) -> None:
    scene = Scene(workspace, clock, ago_s=0)
    shop = Shop(workspace, scene, clock, scene.attempts("A", "B"))
    shop.share()
    hook = shop.hook(inbox.url, "entered", "completed")
    shop.is_watching(hook)
    for number in range(UNITS):
        other = nodes[number % 2].client
        events = [
            {
                "type": "event",
                "name": name,
                "visitorId": "ann",
                "timestamp": scene.at(number / 100 + at),
                "properties": {"attempt": f"a{number}"},
            }
            for at, name in enumerate("AB")
        ]
        body = {"websiteId": workspace.website_id, "events": events}
        body_of(other.post("/api/track", json=body), 202)
    eventually(lambda: len(inbox.messages) >= 2 * UNITS)
    eventually(lambda: shop.read(hook)["waiting"] == 0)
    assert len(inbox.messages) == 2 * UNITS
    for number in range(UNITS):
        own = [each["type"] for each in inbox.messages if each["data"]["unit"] == f"a{number}"]
        assert own == ["entered", "completed"]


def test_a_node_that_comes_back_late_neither_repeats_nor_loses_messages(
    nodes: tuple[Node, Node], workspace: Tenant, clock: ShiftedClock, inbox: Receiver
) -> None:
    """A node whose position is old, because it lost its lock, saves nothing."""
    scene = Scene(workspace, clock, ago_s=0)
    shop = Shop(workspace, scene, clock, scene.attempts("A", "B"))
    shop.share()
    hook = shop.hook(inbox.url, "entered")
    shop.is_watching(hook)
    late = nodes[0].services.webhook_maker
    [old] = read_webhooks(nodes[0])
    scene.story("0/A", attempt="a1")
    eventually(lambda: inbox.messages)
    late._try_make(old)
    scene.story("0.1/A", attempt="a2")
    eventually(lambda: len(inbox.messages) == 2)
    assert [message["data"]["unit"] for message in inbox.messages] == ["a1", "a2"]


def read_webhooks(node: Node) -> list[Webhook]:
    with node.services.database.read() as db:
        return store.active(db)
