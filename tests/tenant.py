"""Workspaces for tests, created over HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
from litestar import Litestar
from litestar.testing import TestClient
from litestar.testing.transport import TestClientTransport
from litestar.types import ASGIApp, Receive, Scope, Send

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
        if scope["type"] == "http":
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


def create_invitation(
    tenant: Tenant, role: str = "member", email: str | None = None
) -> dict[str, Any]:
    """Create an invitation to the workspace. Returns the response to its owner."""
    form = {"email": email or f"{uuid4().hex}@example.com", "role": role}
    answer = tenant.browser.post("/api/settings/invitations", json=form)
    assert answer.status_code == 201, answer.text
    invitation: dict[str, Any] = answer.json()
    return invitation


def token_of(invitation: dict[str, Any]) -> str:
    token: str = invitation["url"].partition("/signup?invitation=")[2]
    return token


def join(tenant: Tenant, role: str = "member") -> httpx.Client:
    """Invite a new user to the workspace and sign up. Returns the user's browser."""
    invitation, browser = create_invitation(tenant, role), new_browser(tenant)
    form = {"email": invitation["email"], "password": PASSWORD, "invitation": token_of(invitation)}
    answer = browser.post("/api/auth/signup", json=form)
    assert answer.status_code == 201, answer.text
    return browser


def sign_up(server: TestClient[Litestar], setup_token: str | None = None) -> Tenant:
    """Create an account with an API key and a website. Needs open sign-up or a setup token."""
    browser, email = visitor(server), f"{uuid4().hex}@example.com"
    headers = {"X-Setup-Token": setup_token} if setup_token else {}
    form = {"email": email, "password": PASSWORD, "workspaceName": "Acme"}
    account = browser.post("/api/auth/signup", json=form, headers=headers)
    assert account.status_code == 201, account.text
    key = browser.post("/api/settings/api-keys", json={"name": "tests"}).json()["key"]
    client = visitor(server, {"Authorization": f"Bearer {key}"})
    website = client.post("/api/settings/websites", json={"name": "Shop", "kind": "web"}).json()
    return Tenant(
        id=account.json()["workspace"]["id"],
        email=email,
        browser=browser,
        client=client,
        website_id=website["id"],
    )
