"""Webhooks send each outcome of a unit once, in order and signed, and correct what has changed."""

from typing import Any

import pytest

from tests.funnels.scenario import HOUR_S
from tests.one_server import one_server
from tests.waiting import eventually
from tests.webhooks.conftest import Shop
from tests.webhooks.receiver import Receiver

pytestmark = [one_server("a cluster stores no outcomes"), pytest.mark.usefixtures("warehouse")]


def types_of(inbox: Receiver, unit: str = "a1") -> list[tuple[str, Any]]:
    return [
        (message["type"], message["data"]["step"])
        for message in inbox.messages
        if message["data"].get("unit") == unit
    ]


def test_each_outcome_of_a_unit_is_sent_once_and_in_order(shop: Shop, inbox: Receiver) -> None:
    shop.share("units", "plan")
    hook = shop.hook(inbox.url)
    shop.is_watching(hook)
    shop.scene.story("1/A", plan="pro")
    eventually(lambda: inbox.messages)
    shop.scene.story("2/B")
    shop.scene.story("3/C")
    eventually(lambda: len(inbox.messages) == 4)
    assert types_of(inbox) == [
        ("entered", None),
        ("step_completed", 2),
        ("step_completed", 3),
        ("completed", None),
    ]
    [entered, *_, completed] = inbox.messages
    assert entered["timestamp"] == shop.scene.at(1)
    assert completed["data"] == {
        "funnelId": shop.funnel_id,
        "step": None,
        "unit": "a1",
        "userId": None,
        "stepsCompletedAt": [shop.scene.at(seconds) for seconds in (1, 2, 3)],
        "windowEndsAt": shop.scene.at(1 + HOUR_S),
        "cohort": {"plan": "pro"},
    }
    assert (completed["corrects"], completed["withdrawn"]) == (None, False)
    inbox.verify(hook["secret"])
    assert len({message["id"] for message in inbox.messages}) == 4
