"""Phones that tap links and open apps, each with its own network address, and a frozen clock."""

import re
from typing import Any
from urllib.parse import unquote

import pytest

from penstock.base.clock import system_clock
from penstock.settings import Settings
from tests import user_agents
from tests.answers import body_of
from tests.links.conftest import LINKS
from tests.tenant import visitor

RESOLVE = f"{LINKS}/resolve"
HOME, OTHER_NETWORK = "203.0.113.7", "198.51.100.9"
USER_AGENTS = {"ios": user_agents.IOS["safari"], "android": user_agents.ANDROID["samsung"]}
VERSIONS = {"ios": "18.5", "android": "15"}


class FrozenClock:
    """A clock that stands still until a test advances it."""

    def __init__(self) -> None:
        self.now_ms = system_clock()

    def __call__(self) -> int:
        return self.now_ms

    def elapsed_ms(self) -> int:
        return self.now_ms

    def advance(self, ms: int) -> None:
        self.now_ms += ms


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Trust every client as a proxy, so that tests can choose addresses with X-Forwarded-For."""
    return settings.model_copy(update={"trusted_proxies": "*"})


class Phone:
    """A phone that taps links and opens the app, with the given network address and platform."""

    def __init__(
        self,
        server: Any,
        app_id: str,
        platform: str = "ios",
        address: str = HOME,
        user_agent: str = "",
    ) -> None:
        self.app_id, self.platform = app_id, platform
        self.http = visitor(
            server, {"User-Agent": user_agent or USER_AGENTS[platform], "X-Forwarded-For": address}
        )

    def tap(self, link: dict[str, Any]) -> str:
        """Open the link's page. Returns its click token, or an empty text."""
        page = self.http.get(f"/l/{link['slug']}", follow_redirects=False)
        assert page.status_code in (200, 302), page.text
        token = re.search(r"\bct=([\w-]{22})", unquote(unquote(page.text)))
        return token[1] if token else ""

    def post_open(self, **fields: Any):
        default = {
            "websiteId": self.app_id,
            "installId": "i-1",
            "platform": self.platform,
            "firstOpen": True,
        }
        return self.http.post(
            RESOLVE, json={**default, "osVersion": VERSIONS[self.platform], **fields}
        )

    def open(self, **fields: Any) -> dict[str, Any]:
        return body_of(self.post_open(**fields))

    def outcome(self, **fields: Any) -> tuple[str | None, str | None]:
        """Open the app. Returns the method and the reason from the response."""
        record = self.open(**fields)
        assert record["matched"] == (record["reason"] is None)
        return record["method"], record["reason"]


@pytest.fixture
def phone(server, app_id) -> Phone:
    return Phone(server, app_id)


@pytest.fixture
def android(server, app_id) -> Phone:
    return Phone(server, app_id, "android")
