"""SIGKILL at each moment between an event and its delivery loses no message. If the process dies
between a delivery and the record of it, the same request is sent again, with the same ID.
"""

import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random, randrange
from threading import Event, Thread
from time import sleep
from typing import Any

import httpx
import pytest

from penstock.base.clock import iso, system_clock
from tests.answers import body_of
from tests.funnels.scenario import HOUR_S, step
from tests.outbound.sinks import LOOPBACK
from tests.serving import Served
from tests.waiting import eventually
from tests.webhooks.killed import MOMENTS
from tests.webhooks.receiver import Receiver, receiver

pytestmark = pytest.mark.usefixtures("starts_service")

KILLS = max(1, int(os.environ.get("PENSTOCK_KILLS", "0")) // 10)
SETTINGS = {"PENSTOCK_STORED_OUTCOMES": "50", "PENSTOCK_OUTBOUND_NETWORKS": LOOPBACK}
LIMITS = {"stored_outcomes_after_ms": 0}
KILLED = ("tests.webhooks.killed",)
REPEATED = {"sent": 1, "settling": 1}
"""Requests that are sent again after a kill at a moment. At all others, none is."""


class Shop:
    """A service with a webhook about a funnel, and what a receiver should get."""

    def __init__(self, data: Path, url: str) -> None:
        self.data = data
        self.service = self.serve()
        self.key, self.website_id = self.service.first_account()
        client = self.service.client
        form = {"email": "owner@example.com", "password": "correct horse battery"}
        body_of(client.post("/api/auth/login", json=form))
        changes = {"sharedContents": "units"}
        origin = {"Origin": self.service.url}
        body_of(client.patch("/api/settings/workspace", json=changes, headers=origin))
        client.cookies.clear()
        funnel = {
            "name": "Checkout",
            "steps": [step("A"), step("B")],
            "countingUnit": "attempt",
            "attemptProperty": "attempt",
            "conversionWindowSeconds": HOUR_S,
        }
        funnel_id = body_of(client.post("/api/funnels", json=funnel), 201)["id"]
        hook = {
            "name": "Shop",
            "url": url,
            "funnelId": funnel_id,
            "events": ["entered", "completed"],
        }
        self.hook_id = body_of(client.post("/api/webhooks", json=hook), 201)["id"]
        eventually(lambda: self.hook()["state"] == "active")
        self.sent = 0

    def serve(self, **more: Any) -> Served:
        return Served(self.data, limits=LIMITS, key=getattr(self, "key", None), **SETTINGS, **more)

    def hook(self) -> dict[str, Any]:
        record: dict[str, Any] = body_of(self.service.client.get(f"/api/webhooks/{self.hook_id}"))
        return record

    def send(self, units: int = 1) -> None:
        """Send the entry and the completion of new units. Raises TransportError if it dies."""
        now = iso(system_clock())
        numbers = range(self.sent, self.sent + units)
        events = [
            {
                "type": "event",
                "dedupeKey": f"{name}{number:08}",
                "name": name,
                "visitorId": "ann",
                "timestamp": now,
                "properties": {"attempt": f"a{number}"},
            }
            for number in numbers
            for name in "AB"
        ]
        for event in events[1::2]:
            event["timestamp"] = iso(system_clock() + 1)
        body = {"websiteId": self.website_id, "events": events}
        answer = self.service.client.post("/api/track", json=body)
        assert body_of(answer, 202)["rejected"] == 0
        self.sent += units

    def expected(self) -> set[tuple[str, str]]:
        types = ("entered", "completed")
        return {(each, f"a{number}") for number in range(self.sent) for each in types}

    def has_all(self, inbox: Receiver) -> bool:
        """Whether nothing is missing. A batch without a response may have been stored too."""
        return {(each["type"], each["data"]["unit"]) for each in inbox.messages} >= self.expected()


def repeated_requests(inbox: Receiver) -> int:
    return len(inbox.requests) - len({headers["webhook-id"] for headers, _ in inbox.requests})


@pytest.mark.slow("kills the service at each moment")
@pytest.mark.parametrize("moment", MOMENTS)
def test_no_message_is_lost_at_any_moment(tmp_path: Path, moment: str) -> None:
    with receiver() as inbox:
        shop = Shop(tmp_path / "data", inbox.url)
        try:
            assert shop.service.stop() == 0
            shop.service = shop.serve(program=KILLED, KILL_AT=moment)
            shop.send()
            shop.service.process.wait(timeout=20)
            shop.service = shop.serve()
            eventually(lambda: shop.has_all(inbox))
            eventually(lambda: shop.hook()["waiting"] == 0)
            assert repeated_requests(inbox) == REPEATED.get(moment, 0)
            ids = Counter(message["id"] for message in inbox.messages)
            assert len(ids) == 2, "a repeat has the same ID"
            assert shop.service.stop() == 0
        finally:
            shop.service.kill()


@pytest.mark.slow("kills the service again and again")
def test_kills_under_load_lose_nothing_and_repeat_only_requests(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("kills", KILLS)
    seed = randrange(2**32)
    random = Random(seed)
    with receiver() as inbox:
        shop = Shop(tmp_path / "data", inbox.url)
        try:
            for _ in range(KILLS):
                has_ended = Event()

                def load(ended: Event = has_ended) -> None:
                    with suppress(httpx.TransportError):
                        while not ended.is_set():
                            shop.send(random.randint(1, 50))

                thread = Thread(target=load)
                thread.start()
                sleep(random.uniform(0.5, 3))
                shop.service.kill()
                has_ended.set()
                thread.join()
                shop.service = shop.serve()
            shop.send(20)
            eventually(lambda: shop.has_all(inbox))
            ids = Counter(message["id"] for message in inbox.messages)
            said = {(each["type"], each["data"]["unit"]) for each in inbox.messages}
            assert len(ids) == len(said), "a repeat has the same ID"
            repeats = ids.total() - len(ids)
            assert repeats <= KILLS * 100
            print(
                f"{KILLS} kills (seed {seed}): {len(ids)} messages, of which {repeats} were"
                f" repeated in {repeated_requests(inbox)} requests"
            )
            assert shop.service.stop() == 0
        finally:
            shop.service.kill()
