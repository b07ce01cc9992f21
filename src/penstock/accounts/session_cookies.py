"""Cookies for sessions and for log-ins in progress."""

from typing import Any

from litestar import Response
from litestar.datastructures import Cookie

from penstock.accounts.model import PENDING_S, SIGN_ON_ATTEMPT_S
from penstock.http.requests import AnyRequest
from penstock.settings import DAY_S, Settings

SESSION_COOKIE = "service_session"
_HOST_COOKIE = f"__Host-{SESSION_COOKIE}"
"""Name of a second cookie, set over HTTPS. Browsers accept it only from this exact host, with
`Secure`.
"""
_PENDING_COOKIE = "service_pending_log_in"
"""Name of the cookie for a log-in that is waiting for a second-factor code."""
_SIGN_ON_COOKIE = "service_sign_on"
"""Name of the cookie for a sealed single sign-on attempt."""
_COOKIE_DAYS = 400
"""Lifetime of cookies: the maximum that browsers allow. The server ends sessions, so cookies need
no renewal.
"""


def session_token(request: AnyRequest) -> str | None:
    """Return the token of the session cookie, under either name; None if there is none."""
    return request.cookies.get(_HOST_COOKIE) or request.cookies.get(SESSION_COOKIE)


def set_session(
    response: Response[Any], request: AnyRequest, settings: Settings, token: str | None
) -> None:
    """Set the session cookie; None removes it.

    Over HTTPS, including behind a trusted proxy, the cookie is set under both names. Clients know
    the documented name; the other takes precedence, so that no other host of the domain can plant a
    session.
    """
    names = (SESSION_COOKIE, _HOST_COOKIE) if _is_https(request, settings) else (SESSION_COOKIE,)
    for name in names:
        _set_cookie(response, request, settings, name, token, _COOKIE_DAYS * DAY_S)


def pending_log_in_token(request: AnyRequest) -> str:
    """Return the token of the log-in that is waiting for a code; empty if there is none."""
    return request.cookies.get(_PENDING_COOKIE, "")


def set_pending_log_in(
    response: Response[Any], request: AnyRequest, settings: Settings, token: str | None
) -> None:
    """Set the cookie for a log-in that is waiting for a code; None removes it."""
    _set_cookie(response, request, settings, _PENDING_COOKIE, token, PENDING_S)


def sign_on_attempt(request: AnyRequest) -> str:
    """Return the sealed single sign-on attempt; empty if there is none."""
    return request.cookies.get(_SIGN_ON_COOKIE, "")


def set_sign_on_attempt(
    response: Response[Any], request: AnyRequest, settings: Settings, sealed: str | None
) -> None:
    """Set the cookie for a sealed single sign-on attempt; None removes it."""
    _set_cookie(response, request, settings, _SIGN_ON_COOKIE, sealed, SIGN_ON_ATTEMPT_S)


def _is_https(request: AnyRequest, settings: Settings) -> bool:
    return request.scope["scheme"] == "https" or settings.base_url.startswith("https://")


def _set_cookie(
    response: Response[Any],
    request: AnyRequest,
    settings: Settings,
    name: str,
    value: str | None,
    max_age_s: int,
) -> None:
    """Set a cookie. value: None removes the cookie."""
    response.cookies.append(
        Cookie(
            key=name,
            value=value or "",
            path="/",
            httponly=True,
            samesite="lax",
            secure=_is_https(request, settings),
            max_age=max_age_s if value else 0,
        )
    )
