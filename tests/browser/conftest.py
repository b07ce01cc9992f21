"""Chromium on real services: one that is fresh for each test, and one with the demo data for all."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.chromium import LAUNCH
from tests.browser.demo import Demo
from tests.browser.watching import Watch
from tests.serving import Served
from tests.tenant import PASSWORD

EMAIL = "ann@example.com"

expect.set_options(timeout=20_000)  # milliseconds; a machine that does much else is slow, not wrong


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    if LAUNCH["executable_path"] is None:
        pytest.fail("Chromium is missing; scripts/setup tests installs it")
    return LAUNCH


@pytest.fixture
def browser_context_args(base_url) -> dict[str, Any]:
    return {
        "base_url": base_url,
        "locale": "en-GB",
        "viewport": {"width": 1280, "height": 800},
        "reduced_motion": "reduce",
        "timezone_id": "Europe/Berlin",
    }


@pytest.fixture
def service(tmp_path) -> Iterator[Served]:
    """A running service on a fresh data folder, without an account."""
    with Served(tmp_path / "data") as running:
        yield running


@pytest.fixture
def service_url(service) -> str:
    return service.url


@pytest.fixture
def account(service) -> Served:
    """The service with a first account, whose session `service.client` has."""
    form = {"email": EMAIL, "password": PASSWORD, "workspaceName": "Acme"}
    service.client.post("/api/auth/signup", json=form).raise_for_status()
    return service


@pytest.fixture
def signed_in(account, page, watch) -> Page:
    """A page of the fresh service whose browser has the account's session. Addresses are paths."""
    sign_in(page.context, account.url, account.client.cookies["service_session"])
    return page


@pytest.fixture(scope="session")
def demo(tmp_path_factory) -> Iterator[Demo]:
    """The demo data. Tests only read it."""
    running = Demo(tmp_path_factory.mktemp("demo"))
    yield running
    running.close()


@pytest.fixture
def base_url(request) -> str:
    """Where paths lead: to the demo when a test uses it, else to the fresh service."""
    url: str = request.getfixturevalue("demo" if "demo" in request.fixturenames else "service").url
    return url


@pytest.fixture
def watch(page) -> Iterator[Watch]:
    """Fails the test afterwards when the page told an error, broke its policy, or asked another host for anything."""
    watching = Watch(page)
    yield watching
    watching.assert_clean()


def sign_in(context: BrowserContext, url: str, session: str) -> None:
    context.add_cookies([{"name": "service_session", "value": session, "url": url}])
