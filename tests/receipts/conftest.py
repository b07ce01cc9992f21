"""A funnel whose numbers are kept."""

import pytest

from tests.answers import body_of
from tests.conftest import ShiftedClock
from tests.funnels.scenario import DAY_S, Json, Scene
from tests.records import create
from tests.tenant import Tenant

PERIOD_DAYS = 10


@pytest.fixture
def scene(workspace: Tenant, clock: ShiftedClock) -> Scene:
    """20 visitors in five days, of whom 12 convert."""
    scene = Scene(workspace, clock, ago_s=20 * DAY_S)
    tell(scene)
    return scene


def tell(scene: Scene) -> None:
    items = []
    for number in range(20):
        at, visitor = number % 5 * DAY_S + number, f"visitor-{number}"
        items.append(scene.item(at, "A", visitor, plan="pro" if number % 2 else "free"))
        if number < 12:
            items.append(scene.item(at + 600, "B", visitor))
    scene.track(items)


class Keeping:
    """Keeps numbers of a funnel, and opens their receipts."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.client = scene, scene.client
        self.funnel = scene.funnel("A", "B", name="Checkout", conversionWindowSeconds=3600)
        self.period = {"startAt": scene.at(-DAY_S), "endAt": scene.at((PERIOD_DAYS - 1) * DAY_S)}

    def keep(self, name: str = "Checkout", **more: str) -> Json:
        parameters = {**self.period, **more}
        form = {"funnelId": self.funnel, "name": name, "parameters": parameters}
        return create(self.client, "/api/receipts", form)

    def open(self, receipt: Json) -> Json:
        opened: Json = body_of(self.client.get(f"/api/receipts/{receipt['id']}"))
        return opened

    def file(self, receipt: Json) -> Json:
        file: Json = body_of(self.client.get(f"/api/receipts/{receipt['id']}/file"))
        return file


def kinds(opened: Json) -> list[str]:
    return [change["kind"] for change in opened["changes"]]


@pytest.fixture
def keeping(scene: Scene) -> Keeping:
    return Keeping(scene)
