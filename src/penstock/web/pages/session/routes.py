"""The start page, log-in and sign-up."""

from typing import Any
from urllib.parse import urlencode

from anyio import to_thread
from litestar import Response
from litestar.response import Redirect

from penstock.accounts.confirmations.service import ConfirmationService
from penstock.accounts.invitations.service import InvitationService
from penstock.accounts.model import CurrentUser, PendingLogIn
from penstock.accounts.origins import is_local_client
from penstock.accounts.own_account.service import OwnAccountService
from penstock.accounts.password_resets.service import PasswordResetService
from penstock.accounts.service import AccountService
from penstock.accounts.session_cookies import (
    pending_log_in_token,
    session_token,
    set_pending_log_in,
    set_session,
    set_sign_on_attempt,
    sign_on_attempt,
)
from penstock.accounts.single_sign_on.model import ProviderAnswer
from penstock.accounts.single_sign_on.service import SingleSignOnService
from penstock.accounts.websites.service import WebsiteService
from penstock.base.errors import (
    Forbidden,
    NotFound,
    PenstockError,
    RateLimited,
    Unauthorized,
    Unavailable,
)
from penstock.base.paging import MAX_PAGE_SIZE, Page
from penstock.http.problems import problem_of
from penstock.http.requests import AnyRequest, address_of
from penstock.settings import Settings
from penstock.web.nav import NAV
from penstock.web.page_routes import page
from penstock.web.rendering import html
from penstock.web.view import safe_next


@page("/")
def start_page(
    session_user: CurrentUser | None, accounts: AccountService, website_service: WebsiteService
) -> Redirect:
    """Redirects to the sign-up, the log-in, the form for a first website, or the first page."""
    if session_user is None:
        return Redirect("/login" if accounts.has_accounts() else "/signup", status_code=302)
    has_websites = website_service.websites(session_user.workspace.id)
    return Redirect(NAV[0].href if has_websites else "/welcome", status_code=302)


@page("/login")
def log_in(
    request: AnyRequest,
    session_user: CurrentUser | None,
    single_sign_on: SingleSignOnService,
    settings: Settings,
) -> Response[Any]:
    """Show the log-in page. The query parameter `code` opens its second step, after single
    sign-on.
    """
    next_path = safe_next(request.query_params.get("next"))
    if session_user is not None:
        return Redirect(next_path, status_code=302)
    content = {
        "next": next_path,
        "session_ended": session_token(request) is not None,
        "signup_open": settings.signup_open,
        "provider_name": single_sign_on.provider_name,
        "needs_code": "code" in request.query_params and bool(pending_log_in_token(request)),
    }
    return html(request, "session/login.html", content)


@page("/login/sso")
async def leave_for_provider(
    request: AnyRequest, single_sign_on: SingleSignOnService, settings: Settings
) -> Response[Any]:
    """Redirects to the identity provider."""
    next_path = safe_next(request.query_params.get("next"))
    try:
        url, sealed_attempt = await single_sign_on.begin(next_path, address_of(request))
    except (Unavailable, RateLimited) as error:
        return await to_thread.run_sync(_sign_on_failed, request, error)
    response = Redirect(url, status_code=302, headers={"Cache-Control": "no-store"})
    set_sign_on_attempt(response, request, settings, sealed_attempt)
    return response


@page("/login/sso/callback")
async def return_from_provider(
    request: AnyRequest, single_sign_on: SingleSignOnService, settings: Settings
) -> Response[Any]:
    """Handles the browser's return from the identity provider."""
    query = request.query_params
    answer = ProviderAnswer(
        query.get("code"), query.get("state"), query.get("iss"), query.get("error")
    )
    try:
        log_in, next_path = await single_sign_on.finish(
            sign_on_attempt(request), answer, address_of(request)
        )
    except (Forbidden, Unauthorized, Unavailable, RateLimited) as error:
        response: Response[Any] = await to_thread.run_sync(_sign_on_failed, request, error)
        set_sign_on_attempt(response, request, settings, None)
        return response
    opened = log_in.opened
    if log_in.is_reclaimed:
        next_path = f"/login/secured?{urlencode({'next': next_path})}"
    if isinstance(opened, PendingLogIn):
        query_text = urlencode({"next": next_path, "code": ""})
        response = Redirect(f"/login?{query_text}", status_code=302)
        set_pending_log_in(response, request, settings, opened.token)
    else:
        response = Redirect(next_path, status_code=302)
        set_session(response, request, settings, opened[0])
    set_sign_on_attempt(response, request, settings, None)
    response.headers["Cache-Control"] = "no-store"
    return response


def _sign_on_failed(request: AnyRequest, error: PenstockError) -> Response[bytes]:
    problem = problem_of(request, error)
    content = {"detail": error.detail}
    response = html(request, "session/sign_on_failed.html", content, status=error.status)
    if "Retry-After" in problem.headers:
        response.headers["Retry-After"] = problem.headers["Retry-After"]
    return response


@page("/login/secured")
def secured(
    request: AnyRequest, reader: CurrentUser, own_account: OwnAccountService
) -> Response[bytes]:
    """Show the page that follows a log-in in which the user took their account back from another
    person.
    """
    workspaces = own_account.workspaces(reader.user, Page(1, MAX_PAGE_SIZE)).data
    next_path = safe_next(request.query_params.get("next"))
    content = {"next": next_path, "reader": reader, "workspaces": workspaces}
    return html(request, "session/secured.html", content)


@page("/confirm-email")
def confirm_email(
    request: AnyRequest, reader: CurrentUser, confirmations: ConfirmationService
) -> Response[bytes]:
    """Confirm an email address. The link is in an email, and also requires a session of the
    account.
    """
    token = request.query_params.get("token", "")
    content = {
        "reader": reader,
        "token": token,
        "is_confirmed": reader.user.email_confirmed_at_ms is not None,
        "is_valid": confirmations.is_valid(reader.user, token),
        "asks": confirmations.needs_confirmation(reader.user),
    }
    return html(request, "session/confirm_email.html", content)


@page("/reset-password")
def reset_password(request: AnyRequest, password_resets: PasswordResetService) -> Response[bytes]:
    content = {
        "is_set_up": password_resets.is_set_up,
        "is_sent": "sent" in request.query_params,
    }
    return html(request, "session/forgotten.html", content)


@page("/reset-password/new")
def new_password(request: AnyRequest) -> Response[bytes]:
    """Show the form that a link in an email opens. The token follows `#`, so that only the browser
    sees it.
    """
    return html(request, "session/new_password.html", {})


@page("/signup")
def sign_up(
    request: AnyRequest,
    session_user: CurrentUser | None,
    accounts: AccountService,
    settings: Settings,
    invitations: InvitationService,
) -> Response[Any]:
    """Show the page for sign-up and invitations.

    From another machine, the first account needs the setup token.
    """
    token = request.query_params.get("invitation")
    if token:
        return _invitation_page(request, session_user, invitations, token)
    if session_user is not None:
        return Redirect("/", status_code=302)
    is_first = not accounts.has_accounts()
    content = {
        "is_first": is_first,
        "is_open": is_first or settings.signup_open,
        "needs_token": is_first and not is_local_client(request),
    }
    return html(request, "session/signup.html", content)


def _invitation_page(
    request: AnyRequest, reader: CurrentUser | None, invitations: InvitationService, token: str
) -> Response[bytes]:
    try:
        invitation, has_account = invitations.read(token)
    except NotFound:
        return html(request, "session/invitation_gone.html", {}, status=404)
    content = {
        "invitation": invitation,
        "has_account": has_account,
        "token": token,
        "here": f"/signup?{urlencode({'invitation': token})}",
        "reader": reader,
    }
    return html(request, "session/invited.html", content)


ROUTES = (
    start_page,
    log_in,
    leave_for_provider,
    return_from_provider,
    secured,
    confirm_email,
    reset_password,
    new_password,
    sign_up,
)
