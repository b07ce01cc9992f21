"""HTTP routes of sign-up, log-in and the session."""

from anyio import to_thread
from litestar import Response, get, post
from litestar.datastructures import Cookie
from litestar.di import NamedDependency

from penstock.accounts.callers import SESSION_COOKIE, is_local_client, require_same_origin
from penstock.accounts.model import CurrentUser
from penstock.accounts.schema import LogIn, SessionRecord, SignUp
from penstock.accounts.service import AccountService
from penstock.http.answers import answer, no_content
from penstock.http.bodies import read_json
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest, address_of
from penstock.settings import DAY_S, Settings

_COOKIE_DAYS = 400
"""Longest lifetime that browsers allow. The server ends sessions, so cookies need no renewal."""


def _with_session(response: Response[bytes], token: str, settings: Settings) -> Response[bytes]:
    response.cookies.append(
        Cookie(
            key=SESSION_COOKIE,
            value=token,
            path="/",
            httponly=True,
            samesite="lax",
            secure=settings.base_url.startswith("https://"),
            max_age=_COOKIE_DAYS * DAY_S,
        )
    )
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
    """Create an account.

    The first one requires a request from this machine or the setup token in `X-Setup-Token`; later
    ones require open sign-up or an invitation.
    """
    require_same_origin(request, settings)
    form = await read_json(request, SignUp)
    token, account = await accounts.sign_up(
        form,
        address_of(request),
        is_local_client=is_local_client(request),
        setup_token=request.headers.get("x-setup-token"),
    )
    return _with_session(answer(SessionRecord.of(account), status=201), token, settings)


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
    require_same_origin(request, settings)
    form = await read_json(request, LogIn)
    password = form.password.get_secret_value()
    token, account = await accounts.log_in(form.email, password, address_of(request))
    return _with_session(answer(SessionRecord.of(account)), token, settings)


@post(
    "/api/auth/logout", status_code=204, opt=described("Log out", open_to_all=True, tag="accounts")
)
async def log_out(
    request: AnyRequest,
    accounts: NamedDependency[AccountService],
    settings: NamedDependency[Settings],
) -> Response[None]:
    """End the session of the cookie, if there is one."""
    require_same_origin(request, settings)
    if token := request.cookies.get(SESSION_COOKIE):
        await to_thread.run_sync(accounts.log_out, token)
    response = no_content()
    response.delete_cookie(SESSION_COOKIE)
    return response


@get("/api/auth/session", opt=described("Current session", answers=SessionRecord, tag="accounts"))
async def session(current_user: NamedDependency[CurrentUser]) -> Response[bytes]:
    return answer(SessionRecord.of(current_user))


ROUTES = (sign_up, log_in, log_out, session)
