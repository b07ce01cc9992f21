"""Fixtures for an app, its links, and clicks on them."""

import time
from collections.abc import Callable
from itertools import count
from typing import Any

import httpx
import pytest

from tests import user_agents
from tests.answers import body_of
from tests.tenant import visitor
from tests.waiting import PATIENCE_S

Make = Callable[..., dict[str, Any]]

LINKS = "/api/mobile/deferred-links"
APP = {
    "name": "Acme Shop",
    "iosBundleId": "com.example.shop",
    "iosTeamId": "A1B2C3D4E5",
    "appStoreUrl": "https://apps.apple.com/app/id123456789",
    "androidPackage": "com.example.shop",
    "playStoreUrl": "https://play.google.com/store/apps/details?id=com.example.shop",
    "customScheme": "acmeshop",
}


@pytest.fixture
def make_app(client: httpx.Client) -> Callable[..., str]:
    """Create a mobile app and return its ID."""

    def make(**fields: Any) -> str:
        answer = client.post(
            "/api/settings/websites", json={"name": "Acme Shop", "kind": "mobile"} | fields
        )
        return body_of(answer, 201)["id"]

    return make


@pytest.fixture
def app_id(make_app) -> str:
    """An app with every setting."""
    return make_app(**APP)


@pytest.fixture
def make_link(client: httpx.Client, app_id: str) -> Make:
    """Create a link and return its record."""
    numbers = count(1)

    def make(**fields: Any) -> dict[str, Any]:
        default = {
            "websiteId": app_id,
            "name": "Spring",
            "slug": f"spring-{next(numbers)}",
            "destinationPath": "/offers/1",
        }
        return body_of(client.post(LINKS, json=default | fields), 201)

    return make


@pytest.fixture
def open_link(server):
    """Open a link like a browser, without following redirects."""

    def open_link(slug, user_agent=user_agents.IOS["safari"], method="GET", **headers):
        sent = {"User-Agent": user_agent} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        return visitor(server, sent).request(method, f"/l/{slug}", follow_redirects=False)

    return open_link


@pytest.fixture
def open_on_wire(wire):
    """Like `open_link`, but over the real protocol."""

    def open_link(slug, user_agent, **headers):
        return wire.client.get(f"/l/{slug}", headers={"User-Agent": user_agent, **headers})

    return open_link


@pytest.fixture
def clicks(services):
    """Return a link's clicks in the warehouse, in order. Waits until the expected number has
    arrived.
    """

    def clicks(link, expected):
        statement = (
            "SELECT * FROM clicks WHERE link_id = {link:String} ORDER BY clicked_at, click_id"
        )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            names, rows = services.warehouse.query(statement, {"link": link["id"]})
            if len(rows) >= expected or time.monotonic() > deadline:
                assert len(rows) == expected
                return [dict(zip(names, row, strict=True)) for row in rows]
            time.sleep(0.05)

    return clicks
