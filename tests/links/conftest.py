"""An app and links into it."""

from collections.abc import Callable
from itertools import count
from typing import Any

import httpx
import pytest

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
    """Makes a mobile app and answers its ID."""

    def make(**fields: Any) -> str:
        answer = client.post("/api/settings/websites", json={"name": "Acme Shop", "kind": "mobile"} | fields)
        assert answer.status_code == 201, answer.text
        website_id: str = answer.json()["id"]
        return website_id

    return make


@pytest.fixture
def app_id(make_app) -> str:
    """An app of which everything is known."""
    return make_app(**APP)


@pytest.fixture
def make_link(client: httpx.Client, app_id: str) -> Make:
    """Makes a link and answers its record."""
    numbers = count(1)

    def make(**fields: Any) -> dict[str, Any]:
        default = {"websiteId": app_id, "name": "Spring", "slug": f"spring-{next(numbers)}", "destinationPath": "/offers/1"}
        answer = client.post(LINKS, json=default | fields)
        assert answer.status_code == 201, answer.text
        record: dict[str, Any] = answer.json()
        return record

    return make
