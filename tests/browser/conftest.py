"""Fixtures that run Chromium against real services.

`account` and `signed_in` use a new workspace for each test, on one service shared by all tests of
this process. `service` is a new installation for one test, without an account. `demo` has the demo
data.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.chromium import LAUNCH
from tests.browser.demo import Demo
from tests.browser.watching import Watch
from tests.records import new_website
from tests.serving import Served, http_client
from tests.tenant import PASSWORD
from tests.waiting import PATIENCE_S

EMAIL = "ann@example.com"

PATIENCE_MS = PATIENCE_S * 1000

CONTEXT: dict[str, Any] = {
    "locale": "en-GB",
    "viewport": {"width": 1280, "height": 800},
    "reduced_motion": "reduce",
    "timezone_id": "Europe/Berlin",
}
"""The default visitor: arguments for Playwright's `new_context`."""

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    if LAUNCH["executable_path"] is None:
        pytest.fail("Chromium is missing; scripts/setup tests installs it")
    return LAUNCH


@pytest.fixture
def browser_context_args(base_url) -> dict[str, Any]:
    return {"base_url": base_url, **CONTEXT}


def patient(context: BrowserContext) -> BrowserContext:
    """Return the context with the timeout that `expect` uses for elements and pages."""
    context.set_default_timeout(PATIENCE_MS)
    return context


@pytest.fixture
def context(context: BrowserContext) -> BrowserContext:
    """A context for one test. A test that names it changes more than cookies, permissions, routes
    and stored values, such as the clock; it takes 0.3 CPU seconds longer.
    """
    return patient(context)


class Visitor:
    """A browser context that tests share, so that programs, styles and scripts of pages stay
    loaded. An open page keeps its process.
    """

    def __init__(self, browser: Browser, base_url: str) -> None:
        self.context = patient(browser.new_context(base_url=base_url, **CONTEXT))
        self._first = self.context.new_page()
        self._first.goto("/health/live")
        self._session = self.context.new_cdp_session(self._first)

    def forget(self) -> None:
        """Become a visitor who has never been here."""
        for page in self.context.pages:
            if page is not self._first:
                page.close()
        self.context.unroute_all()
        self.context.set_offline(False)
        self.context.clear_cookies()
        self.context.clear_permissions()
        stored = {"origin": "*", "storageTypes": "local_storage,indexeddb"}
        self._session.send("Storage.clearDataForOrigin", stored)

    def leave(self) -> None:
        self.context.close()


@pytest.fixture(scope="session")
def visitors(browser: Browser) -> Iterator[dict[str, Visitor]]:
    """The visitors of this process by the URL of their service."""
    visitors = dict[str, Visitor]()
    yield visitors
    for visitor in visitors.values():
        visitor.leave()


@pytest.fixture
def page(
    request: pytest.FixtureRequest,
    browser: Browser,
    visitors: dict[str, Visitor],
    base_url: str,
) -> Iterator[Page]:
    """A page of a visitor without cookies. URLs may be paths of the service."""
    if "context" in request.fixturenames:
        yield request.getfixturevalue("context").new_page()
        return
    if base_url not in visitors:
        visitors[base_url] = Visitor(browser, base_url)
    visitor = visitors[base_url]
    yield visitor.context.new_page()
    visitor.forget()
    if "service" in request.fixturenames:
        visitors.pop(base_url).leave()


@dataclass(frozen=True)
class Account:
    """The owner of a new workspace. client: sends requests with the owner's session."""

    url: str
    email: str
    client: httpx.Client


def new_email(name: str) -> str:
    """Return an unused address. The tests of this process share an installation."""
    return f"{name}-{uuid4().hex[:12]}@example.com"


def create_account(url: str, email: str, workspace: str = "Acme") -> Account:
    client = http_client(url)
    form = {"email": email, "password": PASSWORD, "workspaceName": workspace}
    client.post("/api/auth/signup", json=form).raise_for_status()
    return Account(url, email, client)


@pytest.fixture
def service(starts_service: None, tmp_path) -> Iterator[Served]:
    """A running service on a new data folder, without an account."""
    with Served(tmp_path / "data") as running:
        yield running


@pytest.fixture(scope="session")
def shared_service(starts_service: None, tmp_path_factory) -> Iterator[Served]:
    """A running service with open sign-up. It is shared because starting it takes two seconds."""
    with Served(tmp_path_factory.mktemp("shared") / "data", PENSTOCK_SIGNUP_OPEN="true") as running:
        yield running


@pytest.fixture
def account(shared_service) -> Iterator[Account]:
    """A new account with its own workspace."""
    new = create_account(shared_service.url, new_email("ann"))
    yield new
    new.client.close()


@pytest.fixture
def signed_in(account, page, watch) -> Page:
    """A page whose browser has the session of `account`. URLs may be paths."""
    sign_in(page.context, account.url, account.client.cookies["service_session"])
    return page


@pytest.fixture
def website(account) -> str:
    """The ID of a website of `account`."""
    return new_website(account.client)


@pytest.fixture(scope="session")
def demo(starts_service: None, tmp_path_factory) -> Iterator[Demo]:
    """The demo data. Tests must only read it."""
    running = Demo(tmp_path_factory.mktemp("demo"))
    yield running
    running.close()


@pytest.fixture
def demo_page(demo, page, watch) -> Page:
    """A page whose browser has the session of the demo's account."""
    sign_in(page.context, demo.url, demo.session)
    return page


@pytest.fixture
def base_url(request) -> str:
    """The base URL for paths: the URL of the service that the test uses."""
    names = [name for name in ("demo", "service") if name in request.fixturenames]
    url: str = request.getfixturevalue([*names, "shared_service"][0]).url
    return url


@pytest.fixture
def watch(page) -> Iterator[Watch]:
    """Fail the test afterwards if the page logged an error or sent a request to another host."""
    watching = Watch(page)
    yield watching
    watching.assert_clean()


def serve_html(target: Page | BrowserContext, url: str, html: str, **headers: str) -> None:
    """Answer requests of a page or a context for this URL with a page of HTML."""
    target.route(
        url, lambda route: route.fulfill(body=html, content_type="text/html", headers=headers)
    )


def sign_in(context: BrowserContext, url: str, session: str) -> None:
    context.add_cookies([{"name": "service_session", "value": session, "url": url}])


def sign_up(page: Page, email: str = EMAIL) -> None:
    """Fill in and send the form of the sign-up."""
    page.get_by_label("Workspace").fill("Acme")
    page.get_by_label("Email address").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()


def log_in(page: Page, email: str, password: str = PASSWORD) -> None:
    """Fill in and send the form of the log-in."""
    page.get_by_label("Email address").fill(email)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def confirm(page: Page, button: str, dialog: str | None = None) -> None:
    """Press a button of the open dialog, which may have to have a name."""
    page.get_by_role("dialog", name=dialog).get_by_role("button", name=button).click()
