"""Stored outcomes survive SIGKILL at any moment and still agree with the events.

`PENSTOCK_KILLS` divided by ten is how often the service is killed.
"""

import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path
from random import Random, randrange
from threading import Thread
from typing import Any

import httpx
import pytest

from penstock.base.clock import iso, system_clock
from tests.funnels.scenario import HOUR_S, step
from tests.serving import Served, penstock
from tests.waiting import eventually

Json = dict[str, Any]

KILLS = max(1, int(os.environ.get("PENSTOCK_KILLS", "0")) // 10)
_HEAD = ("funnelId", "definitionRevision", "evaluatedAt", "computedAt", "servedFrom")
SETTINGS = {"PENSTOCK_STORED_OUTCOMES": "50"}
LIMITS = {"stored_outcomes_after_ms": 0}
DEFINITION: Json = {
    "steps": [step("A"), step("B"), step("C")],
    "countingUnit": "attempt",
    "attemptProperty": "attempt",
    "conversionWindowSeconds": HOUR_S,
    "breakdownProperties": ["plan"],
}


class Shop:
    """A website with a funnel, and a client that sends events and reads results."""

    def __init__(self, service: Served, random: Random) -> None:
        self.key, self.website_id = service.first_account()
        self.random, self.sources = random, Counter[str]()
        self.definition = DEFINITION
        self.start_ms = system_clock() - 3 * HOUR_S * 1000
        body = {"name": "Checkout", **DEFINITION}
        self.funnel_id = service.client.post("/api/funnels", json=body).json()["id"]

    def use(self, service: Served, for_s: float = inf) -> None:
        """Send events until the service has ended or the time is up."""
        until_s = time.monotonic() + for_s
        with suppress(httpx.TransportError):
            while time.monotonic() < until_s:
                self.send(service)
                self.results(service)

    def send(self, service: Served) -> None:
        events = [
            {
                "type": "event",
                "name": self.random.choice("ABC"),
                "visitorId": "ann",
                "timestamp": iso(self.start_ms + self.random.randrange(HOUR_S * 1000)),
                "properties": {
                    "attempt": f"a{self.random.randrange(50)}",
                    "plan": self.random.choice(["pro", "free"]),
                },
            }
            for _ in range(self.random.randint(1, 20))
        ]
        body = {"websiteId": self.website_id, "events": events}
        answer = service.client.post("/api/track", json=body)
        assert answer.status_code in (202, 503), answer.text

    def results(self, service: Served) -> Json:
        answer = service.client.get(f"/api/funnels/{self.funnel_id}/results")
        body: Json = answer.json()
        self.sources[body.get("servedFrom", "none")] += 1
        return body

    def answers_from_outcomes(self, service: Served) -> bool:
        """Whether uncached results after a new event come from stored outcomes."""
        self.send(service)
        return bool(self.results(service)["servedFrom"] == "outcomes")

    def assert_equal(self, service: Served) -> None:
        """Check that the results of the saved funnel equal a preview, which reads events.

        The preview has no stored outcomes, because its sequence property is one that no event has.
        """
        saved = self.results(service)
        body = {**self.definition, "sequenceProperty": "none"}
        draft = service.client.post("/api/funnels/preview", json=body).json()
        assert draft["servedFrom"] != "outcomes"
        for body in (saved, draft):
            for name in (*_HEAD, "directReason"):
                body.pop(name, None)
        assert saved == draft


@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("kills the service again and again")
def test_stored_outcomes_agree_with_the_events_after_kills(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("kills", KILLS)
    data, seed = tmp_path / "data", randrange(2**32)
    random = Random(seed)
    service = Served(data, limits=LIMITS, **SETTINGS)
    try:
        shop = Shop(service, random)
        for _ in range(KILLS):
            user = Thread(target=shop.use, args=(service,))
            user.start()
            time.sleep(random.uniform(0, 2))
            service.kill()
            user.join()
            service = Served(data, limits=LIMITS, **SETTINGS)
            service.client.headers["Authorization"] = f"Bearer {shop.key}"
            shop.assert_equal(service)
        eventually(lambda: shop.answers_from_outcomes(service))
        shop.assert_equal(service)
        assert service.stop() == 0
    finally:
        service.kill()
    verified = penstock("verify", "--outcomes", "--data", str(data), **SETTINGS)
    assert verified.returncode == 0, verified.stdout
    assert f"stored outcomes of {shop.funnel_id}: as the events say" in verified.stdout
    print(f"{KILLS} kills (seed {seed}): answers from {dict(shop.sources)}")
