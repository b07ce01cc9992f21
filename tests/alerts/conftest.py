"""Fixtures for alerts: a shop whose checkouts are known, at noon, and what its channels receive."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.app import Services
from penstock.base.clock import iso
from penstock.settings import Settings
from tests.answers import body_of
from tests.conftest import ShiftedClock
from tests.funnels.scenario import DAY_S, HOUR_S, Json
from tests.mail_server import MailServer
from tests.outbound.sinks import LOOPBACK, Sink, sink
from tests.tenant import Tenant
from tests.waiting import eventually

DAY_MS = DAY_S * 1000
CHECKOUT = {
    "name": "Checkout",
    "countingUnit": "attempt",
    "attemptProperty": "checkout",
    "conversionWindowSeconds": DAY_S,
    "steps": [{"type": "Event", "value": name} for name in ("started", "submitted", "bought")],
}


@pytest.fixture
def settings(settings: Settings, mails: MailServer) -> Settings:
    changed = {**mails.settings(), "outbound_networks": LOOPBACK}
    return settings.model_copy(update=changed)


@pytest.fixture
def receiver() -> Iterator[Sink]:
    with sink() as running:
        yield running


@dataclass
class Shop:
    """A workspace at noon of a day (UTC). today_ms: the start of this day."""

    tenant: Tenant
    services: Services
    clock: ShiftedClock
    today_ms: int
    funnel_id: str = ""
    checkouts: int = 0

    def post(self, path: str, body: Json, status: int = 200) -> Json:
        record: Json = body_of(self.tenant.client.post(path, json=body), status)
        return record

    def get(self, path: str) -> Json:
        record: Json = body_of(self.tenant.client.get(path))
        return record

    def share(self, *properties: str) -> None:
        """Let values of these properties leave the dashboard, and no others."""
        changed = {"sharedProperties": properties}
        body_of(self.tenant.browser.patch("/api/settings/workspace", json=changed))

    def track(self, hours: float, name: str, checkout: str, **properties: Any) -> Json:
        """An event. hours: its time, after the start of today."""
        return {
            "type": "event", "name": name, "visitorId": f"v-{checkout}",
            "timestamp": iso(self.today_ms + round(hours * HOUR_S * 1000)),
            "properties": {"checkout": checkout, **properties},
        }  # fmt: skip

    def send(self, events: list[Json]) -> None:
        body = {"websiteId": self.tenant.website_id, "events": events}
        assert self.post("/api/track", body, 202)["rejected"] == 0

    def check_out(self, hours: float, *reached: int, **properties: Any) -> None:
        """Store checkouts that begin at a time. reached: how many got to each step and no
        further.
        """
        events = []
        for steps, number in enumerate(reached, 1):
            for _ in range(number):
                self.checkouts += 1
                events += [
                    self.track(hours + step / 100, name, f"c{self.checkouts}", **properties)
                    for step, name in enumerate(("started", "submitted", "bought")[:steps])
                ]
        self.send(events)

    def alert(self, condition: Json, channels: list[Json], **more: Any) -> Json:
        body = {"name": "Checkout falls", "condition": condition, "channels": channels, **more}
        return self.post("/api/alerts", body, 201)

    def rate(self, when: str, level: float | None = None, **parameters: str) -> Json:
        own = {"funnelId": self.funnel_id, "when": when, "parameters": parameters}
        return {"kind": "rate", **own, **({} if level is None else {"level": level})}

    def pass_hours(self, hours: float) -> None:
        """Let time pass, and wait until all checks that are then due have been done."""
        self.clock.advance(seconds=hours * HOUR_S)
        self.check()

    def check(self) -> None:
        """Wait until all checks that are due have been done."""
        now_ms = self.clock()
        self.services.alert_worker.wake()

        def is_done(alert: Json) -> bool:
            checked_at = alert["checkedAt"] or ""
            return alert["problem"] is not None or checked_at >= iso(now_ms - HOUR_S * 1000)

        eventually(lambda: all(map(is_done, self.get("/api/alerts?pageSize=100")["data"])))

    def messages(self, alert: Json) -> list[Json]:
        """The messages of an alert, the oldest first."""
        return list(reversed(self.get(f"/api/alerts/{alert['id']}/messages")["data"]))

    def delivered(self, alert: Json, state: str = "sent") -> list[Json]:
        """The messages of an alert, once all of their deliveries have this state."""

        def done() -> bool:
            deliveries = [each for item in self.messages(alert) for each in item["deliveries"]]
            return bool(deliveries) and {each["state"] for each in deliveries} == {state}

        eventually(done)
        return self.messages(alert)


@pytest.fixture
def shop(workspace: Tenant, services: Services, clock: ShiftedClock, warehouse: object) -> Shop:
    today_ms = (clock() // DAY_MS + 1) * DAY_MS
    clock.ahead_ms += today_ms + DAY_MS // 2 - clock()
    shop = Shop(workspace, services, clock, today_ms)
    shop.funnel_id = shop.post("/api/funnels", CHECKOUT, 201)["id"]
    return shop


@pytest.fixture
def url(receiver: Sink) -> str:
    return f"http://127.0.0.1:{receiver.port}/hook"


@pytest.fixture
def received(receiver: Sink) -> Callable[[int], list[Any]]:
    """Waits for this number of requests, and returns their bodies."""

    def bodies(number: int) -> list[Any]:
        eventually(lambda: len(receiver.requests) >= number)
        return [json.loads(each.partition(b"\r\n\r\n")[2]) for each in receiver.requests]

    return bodies
