"""HTTP routes for sign-up, log-in and the session."""

from anyio import to_thread
from litestar import Response, get, post
from litestar.di import NamedDependency

from penstock.accounts.model import CurrentUser, PendingLogIn
from penstock.accounts.origins import is_local_client, require_same_origin
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
from penstock.http.bodies import read_json
from penstock.http.openapi import described
from penstock.http.problems import on_penstock_error
from penstock.http.requests import AnyRequest, address_of
from penstock.settings import Settings


def _session_response(
    request: AnyRequest, settings: Settings, token: str, account: CurrentUser, status: int = 200
) -> Response[bytes]:
    response = answer(SessionRecord.from_account(account), status)
    set_session(response, request, settings, token)
    return response


@post(
    "/api/auth/signup",
    opt=described("Sign up", body=SignUp, answers=SessionRecord, open_to_all=True, tag="accounts"),
)
async def sign_up(
    request: AnyRequest,
    accounts: NamedDependency[AccountService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    """Creates an account.

    The first account requires a request from this machine, or the setup token in `X-Setup-Token`.
    Later accounts require open sign-up or an invitation.
    """
    require_same_origin(request, settings)
    form = await read_json(request, SignUp)
    token, account = await accounts.sign_up(
        form,
        address_of(request),
        is_local_client=is_local_client(request),
        setup_token=request.headers.get("x-setup-token"),
    )
    return _session_response(request, settings, token, account, 201)


@post(
    "/api/auth/login",
    status_code=200,
    opt=described("Log in", body=LogIn, answers=SessionRecord, open_to_all=True, tag="accounts"),
)
async def log_in(
    request: AnyRequest,
    accounts: NamedDependency[AccountService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    """Opens a session. If the user has a second factor, returns 401 with the code
    `second_factor_required`.

    In that case, send the second-factor code to `/api/auth/login/code` within five minutes, with
    the cookie from this response.
    """
    require_same_origin(request, settings)
    form = await read_json(request, LogIn)
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


@post(
    "/api/auth/login/code",
    status_code=200,
    opt=described(
        "Log in, second step",
        body=CodeForm,
        answers=SessionRecord,
        open_to_all=True,
        tag="accounts",
    ),
)
async def log_in_with_code(
    request: AnyRequest,
    accounts: NamedDependency[AccountService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    """Completes a log-in. Requires a second-factor code, and the cookie from the first step."""
    require_same_origin(request, settings)
    form = await read_json(request, CodeForm)
    token, account = await to_thread.run_sync(
        accounts.finish_log_in,
        pending_log_in_token(request),
        form.code.get_secret_value(),
        address_of(request),
    )
    response = _session_response(request, settings, token, account)
    set_pending_log_in(response, request, settings, None)
    return response


@post(
    "/api/auth/logout", status_code=204, opt=described("Log out", open_to_all=True, tag="accounts")
)
async def log_out(
    request: AnyRequest,
    accounts: NamedDependency[AccountService],
    settings: NamedDependency[Settings],
) -> Response[None]:
    """Ends the session of the cookie, if there is one."""
    require_same_origin(request, settings)
    if token := session_token(request):
        await to_thread.run_sync(accounts.log_out, token)
    response = no_content()
    set_session(response, request, settings, None)
    return response


@get("/api/auth/session", opt=described("Current session", answers=SessionRecord, tag="accounts"))
async def session(current_user: NamedDependency[CurrentUser]) -> Response[bytes]:
    return answer(SessionRecord.from_account(current_user))


ROUTES = (sign_up, log_in, log_in_with_code, log_out, session)
