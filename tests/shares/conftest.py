"""A funnel whose report is shared, and people without an account."""

import httpx
import pytest

from tests.conftest import ShiftedClock
from tests.funnels.scenario import Json, Scene
from tests.records import create
from tests.tenant import Tenant, new_browser


@pytest.fixture
def scene(workspace: Tenant, clock: ShiftedClock) -> Scene:
    """Visitors by plan: 27 of 30 with `pro` convert, and 5 of 50 with `free`."""
    scene = Scene(workspace, clock, ago_s=5 * 86_400)
    items = []
    for number in range(80):
        plan, converts = ("pro", number < 27) if number < 30 else ("free", number < 35)
        visitor = f"visitor-{number}"
        items.append(scene.item(number, "A", visitor, plan=plan, country="DE"))
        if converts:
            items.append(scene.item(60 + number, "B", visitor))
    scene.track(items)
    return scene


@pytest.fixture
def funnel(scene: Scene) -> str:
    return scene.funnel(
        "A", "B", name="Checkout", conversionWindowSeconds=3600, breakdownProperties=["plan"]
    )


@pytest.fixture
def stranger(workspace: Tenant) -> httpx.Client:
    """A browser without a session."""
    return new_browser(workspace)


class Sharing:
    """Shares reports on a funnel with an API key."""

    def __init__(self, tenant: Tenant, funnel: str) -> None:
        self.tenant, self.funnel = tenant, funnel

    def share(self, **more: object) -> Json:
        return create(self.tenant.client, "/api/shares", {"funnelId": self.funnel, **more})

    def path(self, **more: object) -> str:
        """Share a report and return the path of its page."""
        return path_of(self.share(**more))

    def show(self, *properties: str) -> None:
        """Share the values of these properties."""
        form = {"sharedProperties": list(properties)}
        self.tenant.browser.patch("/api/settings/workspace", json=form).raise_for_status()


def path_of(share: Json) -> str:
    path: str = share["url"].partition("testserver.local")[2] or share["url"]
    return path[path.index("/s/") :]


@pytest.fixture
def sharing(workspace: Tenant, funnel: str) -> Sharing:
    return Sharing(workspace, funnel)
