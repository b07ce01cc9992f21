"""HTTP routes for sign-up, log-in and the session."""

from litestar import Response

from penstock.accounts.model import CurrentUser, PendingLogIn
from penstock.accounts.origins import is_local_client, own_page_route
from penstock.accounts.schema import CodeForm, LogIn, SessionRecord, SignUp
from penstock.accounts.service import AccountService
from penstock.accounts.session_cookies import (
    pending_log_in_token,
    session_token,
    set_pending_log_in,
    set_session,
)
from penstock.base.errors import Unauthorized
from penstock.http.answers import answer, no_content
from penstock.http.handlers import route
from penstock.http.problems import on_penstock_error
from penstock.http.requests import AnyRequest, address_of
from penstock.settings import Settings


def _session_response(
    request: AnyRequest, settings: Settings, token: str, account: CurrentUser, status: int = 200
) -> Response[bytes]:
    response = answer(SessionRecord.from_object(account), status)
    set_session(response, request, settings, token)
    return response


@own_page_route("POST", "/api/auth/signup", "Sign up", answers=SessionRecord, tag="accounts")
async def sign_up(
    request: AnyRequest, accounts: AccountService, settings: Settings, form: SignUp
) -> Response[bytes]:
    """Creates an account.

    The first account requires a request from this machine, or the setup token in `X-Setup-Token`.
    Later accounts require open sign-up or an invitation.
    """
    token, account = await accounts.sign_up(
        form,
        address_of(request),
        is_local_client=is_local_client(request),
        setup_token=request.headers.get("x-setup-token"),
    )
    return _session_response(request, settings, token, account, 201)


@own_page_route(
    "POST", "/api/auth/login", "Log in", status=200, answers=SessionRecord, tag="accounts"
)
async def log_in(
    request: AnyRequest, accounts: AccountService, settings: Settings, form: LogIn
) -> Response[bytes]:
    """Opens a session. If the user has a second factor, returns 401 with the code
    `second_factor_required`.

    In that case, send the second-factor code to `/api/auth/login/code` within five minutes, with
    the cookie from this response.
    """
    password = form.password.get_secret_value()
    opened = await accounts.log_in(form.email, password, address_of(request))
    if isinstance(opened, PendingLogIn):
        response = on_penstock_error(request, _second_factor_required())
        set_pending_log_in(response, request, settings, opened.token)
        return response
    return _session_response(request, settings, *opened)


def _second_factor_required() -> Unauthorized:
    return Unauthorized(
        "The password is right. Send a code of your authenticator app to /api/auth/login/code.",
        code="second_factor_required",
    )


@own_page_route(
    "POST",
    "/api/auth/login/code",
    "Log in, second step",
    status=200,
    answers=SessionRecord,
    tag="accounts",
)
def log_in_with_code(
    request: AnyRequest, accounts: AccountService, settings: Settings, form: CodeForm
) -> Response[bytes]:
    """Completes a log-in. Requires a second-factor code, and the cookie from the first step."""
    token, account = accounts.finish_log_in(
        pending_log_in_token(request), form.code.get_secret_value(), address_of(request)
    )
    response = _session_response(request, settings, token, account)
    set_pending_log_in(response, request, settings, None)
    return response


@own_page_route("POST", "/api/auth/logout", "Log out", status=204, tag="accounts")
def log_out(request: AnyRequest, accounts: AccountService, settings: Settings) -> Response[None]:
    """Ends the session of the cookie, if there is one."""
    if token := session_token(request):
        accounts.log_out(token)
    response = no_content()
    set_session(response, request, settings, None)
    return response


@route("GET", "/api/auth/session", "Current session", tag="accounts")
async def session(current_user: CurrentUser) -> SessionRecord:
    return SessionRecord.from_object(current_user)


ROUTES = (sign_up, log_in, log_in_with_code, log_out, session)
