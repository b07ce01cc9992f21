"""Taps on links and opens of apps, as tests make them: with a network address and a clock of their own."""

import re
from typing import Any
from urllib.parse import unquote

import pytest

from penstock.base.clock import system_clock
from penstock.settings import Settings
from tests.links import agents
from tests.links.conftest import LINKS
from tests.tenant import visitor

RESOLVE = f"{LINKS}/resolve"
HOME, ELSEWHERE = "203.0.113.7", "198.51.100.9"
USER_AGENTS = {"ios": agents.IOS["safari"], "android": agents.ANDROID["samsung"]}
VERSIONS = {"ios": "18.5", "android": "15"}


class FrozenClock:
    """Stands still unless a test moves it."""

    def __init__(self) -> None:
        self.now_ms = system_clock()

    def __call__(self) -> int:
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
    """Whoever asks is a proxy that tells the client's address in X-Forwarded-For."""
    return settings.model_copy(update={"trusted_proxies": "*"})


class Phone:
    """A network address and a platform; taps links and opens the app."""

    def __init__(self, server: Any, app_id: str, platform: str = "ios", address: str = HOME, user_agent: str = "") -> None:
        self.app_id, self.platform = app_id, platform
        self.http = visitor(server, {"User-Agent": user_agent or USER_AGENTS[platform], "X-Forwarded-For": address})

    def tap(self, link: dict[str, Any]) -> str:
        """Open the link's page; the token that it carries."""
        page = self.http.get(f"/l/{link['slug']}", follow_redirects=False)
        assert page.status_code in (200, 302), page.text
        found = re.search(r"\bct=([\w-]{22})", unquote(unquote(page.text)))
        return found[1] if found else ""

    def ask(self, **sent: Any):
        default = {"websiteId": self.app_id, "installId": "i-1", "platform": self.platform, "firstOpen": True}
        return self.http.post(RESOLVE, json={**default, "osVersion": VERSIONS[self.platform], **sent})

    def open(self, **sent: Any) -> dict[str, Any]:
        answer = self.ask(**sent)
        assert answer.status_code == 200, answer.text
        record: dict[str, Any] = answer.json()
        return record

    def outcome(self, **sent: Any) -> tuple[str | None, str | None]:
        """Method and reason."""
        record = self.open(**sent)
        assert record["matched"] == (record["reason"] is None)
        return record["method"], record["reason"]


@pytest.fixture
def phone(server, app_id) -> Phone:
    return Phone(server, app_id)


@pytest.fixture
def android(server, app_id) -> Phone:
    return Phone(server, app_id, "android")
