"""Coming and going: the front door, log-in, sign-up."""

from typing import Any
from urllib.parse import urlencode

from anyio import to_thread
from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.response import Redirect

from penstock.accounts.callers import from_this_machine
from penstock.accounts.people.invitations import InvitationService
from penstock.accounts.service import AccountService
from penstock.base.errors import NotFound
from penstock.settings import Settings
from penstock.web.nav import NAV
from penstock.web.rendering import html
from penstock.web.view import reader_of, safe_next

AnyRequest = Request[Any, Any, Any]
Accounts = NamedDependency[AccountService]


@get("/")
async def front(request: AnyRequest, accounts: Accounts) -> Redirect:
    """Leads on: to the first account, to the log-in, to the first website, or to the first page of the navigation."""
    reader = await reader_of(request, accounts)
    if reader is None:
        return Redirect("/signup" if accounts.setup_token else "/login", status_code=302)
    has_websites = await to_thread.run_sync(accounts.websites, reader.workspace.id)
    return Redirect(NAV[0].href if has_websites else "/welcome", status_code=302)


@get("/login")
async def log_in(request: AnyRequest, accounts: Accounts, settings: NamedDependency[Settings]) -> Response[Any]:
    next_path = safe_next(request.query_params.get("next"))
    if await reader_of(request, accounts):
        return Redirect(next_path, status_code=302)
    return html(request, "session/login.html", {"next": next_path, "signup_open": settings.signup_open})


@get("/signup")
async def sign_up(
    request: AnyRequest, accounts: Accounts, settings: NamedDependency[Settings], invitations: NamedDependency[InvitationService]
) -> Response[Any]:
    """The first account needs the setup token when it is made from another machine. An invitation leads here, too."""
    token = request.query_params.get("invitation")
    if token:
        return await _invited(request, accounts, invitations, token)
    if await reader_of(request, accounts):
        return Redirect("/", status_code=302)
    is_first = accounts.setup_token is not None
    content = {
        "is_first": is_first,
        "is_open": is_first or settings.signup_open,
        "needs_token": is_first and not from_this_machine(request),
    }
    return html(request, "session/signup.html", content)


async def _invited(request: AnyRequest, accounts: AccountService, invitations: InvitationService, token: str) -> Response[Any]:
    reader = await reader_of(request, accounts)
    try:
        invitation, has_account = await to_thread.run_sync(invitations.read, token)
    except NotFound:
        return html(request, "session/invitation_gone.html", {}, status=404)
    here = f"/signup?{urlencode({'invitation': token})}"
    content = {"invitation": invitation, "has_account": has_account, "token": token, "here": here, "reader": reader}
    return html(request, "session/invited.html", content)


ROUTES = (front, log_in, sign_up)
