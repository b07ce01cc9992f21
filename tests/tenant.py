"""Workspaces for tests, created over HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
from litestar import Litestar
from litestar.enums import ScopeType
from litestar.testing import TestClient
from litestar.testing.transport import TestClientTransport
from litestar.types import ASGIApp, Receive, Scope, Send

from tests.answers import body_of
from tests.records import new_key, new_website

BASE_URL = "http://testserver.local"
SAME_ID = {"X-Request-Id": "of-all-tests"}
"""A fixed request ID, which makes problem documents comparable."""

PASSWORD = "correct horse battery"


def visitor(server: TestClient[Litestar], headers: Mapping[str, str] | None = None) -> httpx.Client:
    """Create a client for the running application, with its own cookies and headers."""
    transport: Any = TestClientTransport(server)
    return httpx.Client(
        transport=transport, base_url=BASE_URL, headers={**SAME_ID, **(headers or {})}
    )


def connecting_from(address: str, app: ASGIApp) -> ASGIApp:
    """Wrap the application, which then sees a client with this IP address."""

    async def with_address(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP:
            scope["client"] = (address, 50000)
        await app(scope, receive, send)

    return with_address


@dataclass(frozen=True)
class Tenant:
    """A workspace. client: sends its API key.

    browser: sends its owner's session cookie. website_id: a website of kind `web`.
    """

    id: str
    email: str
    browser: httpx.Client
    client: httpx.Client
    website_id: str


def new_browser(tenant: Tenant) -> httpx.Client:
    """Create a browser without a session, for the same application."""
    return httpx.Client(transport=tenant.browser._transport, base_url=BASE_URL, headers=SAME_ID)


def log_in(
    client: httpx.Client, email: str, password: str = PASSWORD, **more: Any
) -> httpx.Response:
    form = {"email": email, "password": password}
    return client.post("/api/auth/login", json=form, **more)


def audit_log(client: httpx.Client, action: str | None = None) -> list[dict[str, Any]]:
    """Return the newest entries of the audit log, the newest first. action: only of this one."""
    entries = body_of(client.get("/api/settings/audit-log"))["data"]
    return [entry for entry in entries if action in (None, entry["action"])]


def create_invitation(
    tenant: Tenant, role: str = "member", email: str | None = None
) -> dict[str, Any]:
    """Create an invitation to the workspace. Returns the response to its owner."""
    form = {"email": email or f"{uuid4().hex}@example.com", "role": role}
    answer = tenant.browser.post("/api/settings/invitations", json=form)
    invitation: dict[str, Any] = body_of(answer, 201)
    return invitation


def token_of(invitation: dict[str, Any]) -> str:
    url: str = invitation["url"]
    return url.partition("/signup?invitation=")[2]


def join(tenant: Tenant, role: str = "member") -> httpx.Client:
    """Invite a new user to the workspace and sign up. Returns the user's browser."""
    invitation, browser = create_invitation(tenant, role), new_browser(tenant)
    form = {"email": invitation["email"], "password": PASSWORD, "invitation": token_of(invitation)}
    body_of(browser.post("/api/auth/signup", json=form), 201)
    return browser


def sign_up(server: TestClient[Litestar], setup_token: str | None = None) -> Tenant:
    """Create an account with an API key and a website. Needs open sign-up or a setup token."""
    browser, email = visitor(server), f"{uuid4().hex}@example.com"
    headers = {"X-Setup-Token": setup_token} if setup_token else {}
    form = {"email": email, "password": PASSWORD, "workspaceName": "Acme"}
    account = body_of(browser.post("/api/auth/signup", json=form, headers=headers), 201)
    client = visitor(server, {"Authorization": f"Bearer {new_key(browser)}"})
    return Tenant(
        id=account["workspace"]["id"],
        email=email,
        browser=browser,
        client=client,
        website_id=new_website(client),
    )
