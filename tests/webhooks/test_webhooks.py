"""Webhooks send each outcome of a unit once, in order and signed, and correct what has changed."""

from typing import Any

import pytest

from penstock.base.clock import iso
from tests.answers import body_of, faults
from tests.conftest import ShiftedClock
from tests.funnels.scenario import HOUR_S, step
from tests.waiting import eventually
from tests.webhooks.conftest import Shop
from tests.webhooks.receiver import Receiver

pytestmark = [
    pytest.mark.usefixtures("warehouse"),
    pytest.mark.slow("waits for the workers, which look each second"),
]


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


def test_only_the_chosen_types_and_the_allowed_properties_are_sent(
    shop: Shop, inbox: Receiver
) -> None:
    shop.is_watching(shop.hook(inbox.url, "completed"))
    shop.scene.story("1/A 2/B 3/C", plan="pro")
    eventually(lambda: inbox.messages)
    [message] = inbox.messages
    assert (message["type"], message["data"]["cohort"]) == ("completed", {})


def test_what_waits_is_sent_only_as_far_as_the_workspace_shares_it_by_then(
    shop: Shop, inbox: Receiver, clock: ShiftedClock
) -> None:
    shop.share("units", "plan")
    hook = shop.hook(inbox.url, "entered")
    shop.is_watching(hook)
    inbox.statuses = [500, 500]
    shop.scene.story("1/A", plan="pro")
    eventually(lambda: shop.read(hook)["failures"] == 1)
    shop.share("units")
    clock.advance(seconds=6)
    eventually(lambda: shop.read(hook)["failures"] == 2)
    shop.share("figures")
    clock.advance(seconds=31)
    eventually(lambda: shop.read(hook)["problem"])
    shop.share("units")
    eventually(lambda: inbox.messages)
    assert ["pro" in body for body in inbox.bodies] == [True, False, False]
    assert inbox.messages[0]["data"]["cohort"] == {}


def test_time_makes_messages_before_and_after_the_window_ends(
    shop: Shop, inbox: Receiver, clock: ShiftedClock
) -> None:
    shop.is_watching(shop.hook(inbox.url, "expiring", "dropped_off"))
    shop.scene.story("0/A 1/B", attempt="stops")
    shop.scene.story("0/A 1/B 2/C", attempt="completes")
    clock.advance(seconds=HOUR_S - 300)
    eventually(lambda: inbox.messages)
    clock.advance(seconds=600)
    eventually(lambda: len(inbox.messages) == 2)
    assert types_of(inbox, "stops") == [("expiring", None), ("dropped_off", None)]
    times = [message["timestamp"] for message in inbox.messages]
    assert times == [shop.scene.at(HOUR_S - 600), shop.scene.at(HOUR_S)]


def test_a_late_event_corrects_the_messages_that_it_changes(
    shop: Shop, inbox: Receiver, clock: ShiftedClock
) -> None:
    shop.is_watching(shop.hook(inbox.url, "entered", "completed", "dropped_off"))
    shop.scene.story("10/A 11/B")
    clock.advance(seconds=2 * HOUR_S)
    eventually(lambda: len(inbox.messages) == 2)
    entered, dropped = inbox.messages
    shop.scene.story("12/C")
    eventually(lambda: len(inbox.messages) == 4)
    late = {message["type"]: message for message in inbox.messages[2:]}
    assert late["dropped_off"]["corrects"] == dropped["id"]
    assert late["dropped_off"]["withdrawn"] is True
    assert (late["completed"]["corrects"], late["completed"]["withdrawn"]) == (None, False)
    shop.scene.story("5/A")
    eventually(lambda: len(inbox.messages) == 5)
    moved = inbox.messages[-1]
    assert (moved["type"], moved["corrects"]) == ("entered", entered["id"])
    assert (moved["timestamp"], moved["withdrawn"]) == (shop.scene.at(5), False)
    assert len({message["id"] for message in inbox.messages}) == 5


def test_outcomes_before_the_webhook_are_not_sent_until_a_replay(
    shop: Shop, inbox: Receiver, clock: ShiftedClock
) -> None:
    start_ms = shop.scene.start_ms
    shop.scene.story("0/A 1/B", attempt="earlier")
    clock.advance(seconds=60)
    hook = shop.hook(inbox.url, "entered", "step_completed")
    shop.is_watching(hook)
    shop.scene.story("0/A", attempt="later")
    eventually(lambda: inbox.messages)
    shop.scene.story("2/C", attempt="earlier")
    shop.scene.story("2/B", attempt="later")
    eventually(lambda: len(inbox.messages) >= 3)
    seen = {message["id"]: message for message in inbox.messages}
    steps = {message["data"]["unit"]: message["data"]["step"] for message in seen.values()}
    assert steps == {"earlier": 3, "later": 2}
    shop.post(hook, "replay", **{"from": iso(start_ms)})
    eventually(lambda: len(inbox.messages) == 3 + 5)
    again = inbox.messages[3:]
    assert {message["id"] for message in again} > seen.keys()
    assert types_of(inbox, "earlier")[1:] == [
        ("entered", None),
        ("step_completed", 2),
        ("step_completed", 3),
    ]
    answer = shop.tenant.client.post(
        f"/api/webhooks/{hook['id']}/replay", json={"from": shop.scene.at(-31 * 24 * HOUR_S)}
    )
    assert faults(answer) == {"from": "out_of_range"}


def test_a_pause_sends_nothing_and_its_end_sends_all(shop: Shop, inbox: Receiver) -> None:
    hook = shop.hook(inbox.url, "entered")
    shop.is_watching(hook)
    assert shop.post(hook, "pause")["state"] == "paused"
    other = shop.hook(inbox.url.replace("hook", "other"), "entered")
    shop.is_watching(other)
    shop.scene.story("1/A")
    eventually(lambda: len(inbox.messages) == 1)
    assert shop.read(hook)["waiting"] == 0
    assert shop.post(hook, "resume")["state"] == "active"
    eventually(lambda: len(inbox.messages) == 2)
    first, second = inbox.messages
    assert (first["id"] != second["id"], first["data"] == second["data"]) == (True, True)


def test_failed_deliveries_are_sent_again_for_three_days(
    shop: Shop, inbox: Receiver, clock: ShiftedClock
) -> None:
    hook = shop.hook(inbox.url, "entered")
    shop.is_watching(hook)
    inbox.statuses = [500, 302]
    shop.scene.story("1/A", attempt="first")
    eventually(lambda: shop.read(hook)["failures"] == 1)
    shop.scene.story("2/A", attempt="second")
    eventually(lambda: shop.read(hook)["waiting"] == 2)
    assert shop.read(hook)["state"] == "failing"
    clock.advance(seconds=6)
    eventually(lambda: shop.read(hook)["failures"] == 2)
    clock.advance(seconds=31)
    eventually(lambda: len(inbox.messages) == 2)
    ids = [headers["webhook-id"] for headers, _ in inbox.requests]
    assert ids[0] == ids[1] == ids[2] != ids[3], "what was sent once is sent again alone"
    log = shop.deliveries(hook)
    assert [(each["status"], each["accepted"], each["messages"]) for each in log] == [
        (200, True, 1),
        (200, True, 1),
        (302, False, 1),
        (500, False, 1),
    ]
    assert shop.read(hook)["state"] == "active"
    inbox.statuses = [500] * 50
    shop.scene.story("3/A", attempt="third")
    eventually(lambda: shop.read(hook)["failures"] == 1)
    clock.advance(days=3)
    eventually(lambda: shop.read(hook)["waiting"] == 0)
    assert "Given up after three days: 1 messages" in shop.deliveries(hook)[0]["text"]


def test_a_request_has_up_to_100_messages(shop: Shop, inbox: Receiver) -> None:
    hook = shop.hook(inbox.url, "entered")
    shop.is_watching(hook)
    shop.post(hook, "pause")
    events = [
        {
            "type": "event",
            "name": "A",
            "visitorId": "ann",
            "timestamp": shop.scene.at(0.5 + at / 1000),
            "properties": {"attempt": f"a{at}"},
        }
        for at in range(250)
    ]
    body = {"websiteId": shop.tenant.website_id, "events": events}
    body_of(shop.tenant.client.post("/api/track", json=body), 202)
    shop.post(hook, "resume")
    eventually(lambda: len(inbox.messages) == 250)
    assert [len(messages) for _, messages in inbox.requests] == [100, 100, 50]
    units = [message["data"]["unit"] for message in inbox.messages]
    assert units == [f"a{at}" for at in range(250)], "in the order of their times"


def test_no_more_messages_are_made_than_may_wait_and_none_is_lost(
    shop: Shop, inbox: Receiver, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.webhooks.maker.MAX_WAITING", 1)
    hook = shop.hook(inbox.url, "entered")
    shop.is_watching(hook)
    inbox.statuses = [500]
    shop.scene.story("1/A", attempt="first")
    eventually(lambda: shop.read(hook)["failures"])
    shop.scene.story("2/A", attempt="second")
    eventually(lambda: "messages wait" in (shop.read(hook)["problem"] or ""))
    clock.advance(seconds=6)
    eventually(lambda: len(inbox.messages) == 2)
    eventually(lambda: shop.read(hook)["problem"] is None)


def test_a_changed_funnel_sends_only_what_comes_after_it(
    shop: Shop, inbox: Receiver, clock: ShiftedClock
) -> None:
    hook = shop.hook(inbox.url, "entered", "step_completed")
    shop.is_watching(hook)
    shop.scene.story("1/A 2/B")
    eventually(lambda: len(inbox.messages) == 2)
    clock.advance(seconds=120)  # so that its position is saved
    path = f"/api/funnels/{shop.funnel_id}"
    funnel = body_of(shop.tenant.client.get(path))
    eventually(lambda: shop.scene.story("100/A", attempt="x") or len(inbox.messages) == 3)
    fields = {key: funnel[key] for key in funnel if key not in ("id", "createdAt", "updatedAt")}
    changed = {**fields, "steps": [step("A"), step("D")]}
    body_of(shop.tenant.client.put(path, json=changed))
    clock.advance(seconds=10)
    shop.scene.story("130/D")
    eventually(lambda: len(inbox.messages) == 4)
    last = inbox.messages[-1]
    assert (last["data"]["unit"], last["data"]["step"]) == ("a1", 2)
    assert last["corrects"] is None
    assert last["id"] not in {message["id"] for message in inbox.messages[:-1]}
