"""The start page, log-in and sign-up."""

from typing import Any
from urllib.parse import urlencode

from anyio import to_thread
from litestar import Response, get
from litestar.di import NamedDependency
from litestar.response import Redirect

from penstock.accounts.callers import is_local_client, session_token
from penstock.accounts.invitations.service import InvitationService
from penstock.accounts.service import AccountService
from penstock.accounts.websites.service import WebsiteService
from penstock.base.errors import NotFound
from penstock.http.requests import AnyRequest
from penstock.settings import Settings
from penstock.web.nav import NAV
from penstock.web.rendering import html
from penstock.web.view import reader_of, safe_next

Accounts = NamedDependency[AccountService]


@get("/")
async def start_page(
    request: AnyRequest,
    accounts: Accounts,
    website_service: NamedDependency[WebsiteService],
) -> Redirect:
    """Redirects to the sign-up, the log-in, the first website, or the first page."""
    reader = await reader_of(request, accounts)
    if reader is None:
        has_accounts = await to_thread.run_sync(accounts.has_accounts)
        return Redirect("/login" if has_accounts else "/signup", status_code=302)
    has_websites = await to_thread.run_sync(website_service.websites, reader.workspace.id)
    return Redirect(NAV[0].href if has_websites else "/welcome", status_code=302)


@get("/login")
async def log_in(
    request: AnyRequest, accounts: Accounts, settings: NamedDependency[Settings]
) -> Response[Any]:
    next_path = safe_next(request.query_params.get("next"))
    if await reader_of(request, accounts):
        return Redirect(next_path, status_code=302)
    content = {
        "next": next_path,
        "session_ended": session_token(request) is not None,
        "signup_open": settings.signup_open,
    }
    return html(request, "session/login.html", content)


@get("/signup")
async def sign_up(
    request: AnyRequest,
    accounts: Accounts,
    settings: NamedDependency[Settings],
    invitations: NamedDependency[InvitationService],
) -> Response[Any]:
    """Also for invitations. The first account needs the setup token from another machine."""
    token = request.query_params.get("invitation")
    if token:
        return await _invited(request, accounts, invitations, token)
    if await reader_of(request, accounts):
        return Redirect("/", status_code=302)
    is_first = not await to_thread.run_sync(accounts.has_accounts)
    content = {
        "is_first": is_first,
        "is_open": is_first or settings.signup_open,
        "needs_token": is_first and not is_local_client(request),
    }
    return html(request, "session/signup.html", content)


async def _invited(
    request: AnyRequest, accounts: AccountService, invitations: InvitationService, token: str
) -> Response[Any]:
    reader = await reader_of(request, accounts)
    try:
        invitation, has_account = await to_thread.run_sync(invitations.read, token)
    except NotFound:
        return html(request, "session/invitation_gone.html", {}, status=404)
    here = f"/signup?{urlencode({'invitation': token})}"
    content = {
        "invitation": invitation,
        "has_account": has_account,
        "token": token,
        "here": here,
        "reader": reader,
    }
    return html(request, "session/invited.html", content)


ROUTES = (start_page, log_in, sign_up)
