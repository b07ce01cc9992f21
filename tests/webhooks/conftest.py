"""Fixtures for webhooks: a shop whose checkouts are attempts, and a receiver on this machine."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.settings import Settings
from tests.answers import body_of
from tests.conftest import ShiftedClock
from tests.funnels.scenario import Scene
from tests.outbound.sinks import LOOPBACK
from tests.tenant import Tenant
from tests.waiting import eventually
from tests.webhooks.receiver import Json, Receiver, receiver

EVERY_EVENT = ["entered", "step_completed", "completed", "dropped_off", "expiring"]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(
        update={"stored_outcomes": 10, "outbound_networks": LOOPBACK}
    ).with_limits(stored_outcomes_after_ms=0)


@dataclass
class Shop:
    """A workspace that shares units, with a funnel of checkouts."""

    tenant: Tenant
    scene: Scene
    clock: ShiftedClock
    funnel_id: str

    def share(self, level: str = "units", *properties: str) -> None:
        changes = {"sharedContents": level, "sharedProperties": list(properties)}
        body_of(self.tenant.browser.patch("/api/settings/workspace", json=changes))

    def hook(self, url: str, *events: str, **more: Any) -> Json:
        """Create a webhook. Stories begin anew after it, so that it sends what they tell."""
        body: Json = {"name": "Shop", "url": url, "funnelId": self.funnel_id, **more}
        body["events"] = list(events) or EVERY_EVENT
        if "expiring" in body["events"]:
            body.setdefault("expiringBeforeSeconds", 600)
        created: Json = body_of(self.tenant.client.post("/api/webhooks", json=body), 201)
        self.scene.start_ms = self.clock()
        return created

    def read(self, hook: Json) -> Json:
        record: Json = body_of(self.tenant.client.get(f"/api/webhooks/{hook['id']}"))
        return record

    def post(self, hook: Json, path: str, status: int = 200, **body: Any) -> Json:
        answer = self.tenant.client.post(f"/api/webhooks/{hook['id']}/{path}", json=body or None)
        record: Json = body_of(answer, status)
        return record

    def deliveries(self, hook: Json) -> list[Json]:
        path = f"/api/webhooks/{hook['id']}/deliveries"
        log: list[Json] = body_of(self.tenant.client.get(path, params={"pageSize": 100}))["data"]
        return log

    def is_watching(self, hook: Json) -> None:
        """Wait until outcomes are stored, so that later ones are sent at once."""
        eventually(lambda: self.read(hook)["state"] == "active")


@pytest.fixture
def shop(workspace: Tenant, clock: ShiftedClock) -> Shop:
    scene = Scene(workspace, clock, ago_s=0)
    funnel_id = scene.attempts("A", "B", "C", breakdownProperties=["plan"])
    own = Shop(workspace, scene, clock, funnel_id)
    own.share()
    return own


@pytest.fixture
def inbox() -> Iterator[Receiver]:
    with receiver() as own:
        yield own
