"""Litestar dependencies that identify the caller by API key or session cookie.

A browser sends its cookies with requests from any site. To prevent cross-site request forgery, a
session is accepted only for JSON bodies, which a foreign form cannot send, and only from our own
origin if the browser names one.
"""

from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from anyio import to_thread
from litestar import Response
from litestar.datastructures import Cookie
from litestar.di import NamedDependency

from penstock.accounts.keys.service import KeyService, wrong_website_of_key
from penstock.accounts.model import Caller, CurrentUser
from penstock.accounts.service import PENDING_S, AccountService
from penstock.accounts.single_sign_on.service import ATTEMPT_S
from penstock.base.errors import Forbidden, Unauthorized, UnsupportedMedia
from penstock.base.wording import listed
from penstock.http.bodies import require_json
from penstock.http.requests import AnyRequest, media_type_of
from penstock.http.scopes import require_scope, scopes_of
from penstock.settings import DAY_S, Settings

SESSION_COOKIE = "service_session"
_HOST_COOKIE = f"__Host-{SESSION_COOKIE}"
"""A second cookie over HTTPS: browsers accept it only from this exact host, with `Secure`."""
_PENDING_COOKIE = "service_pending_log_in"
"""Cookie of a log-in that waits for a code of the second factor."""
_SIGN_ON_COOKIE = "service_sign_on"
"""Cookie of a sealed single sign-on attempt."""
_COOKIE_DAYS = 400
"""Maximum lifetime that browsers allow. The server ends sessions, so cookies need no renewal."""
CHECKS_WEBSITE = "checks_website"
"""Route `opt` key: the route itself checks that a key for one website matches the record."""
UPLOAD_MEDIA_TYPES = "upload_media_types"
"""Route `opt` key: the media types of a file that a request with a session may send, not JSON.

They must be types that an HTML form cannot send.
"""


def session_token(request: AnyRequest) -> str | None:
    """The token of the session cookie, under either name; None if there is none."""
    return request.cookies.get(_HOST_COOKIE) or request.cookies.get(SESSION_COOKIE)


def set_session(
    response: Response[Any], request: AnyRequest, settings: Settings, token: str | None
) -> None:
    """Set the session cookie; None removes it.

    Over HTTPS, also behind a trusted proxy, it is set under both names: clients know the documented
    name, and the other takes precedence, so that no other host of the domain can plant a session.
    """
    names = (SESSION_COOKIE, _HOST_COOKIE) if _is_https(request, settings) else (SESSION_COOKIE,)
    for name in names:
        _set_cookie(response, request, settings, name, token, _COOKIE_DAYS * DAY_S)


def pending_log_in_token(request: AnyRequest) -> str:
    """The token of the log-in that waits for a code; empty if there is none."""
    return request.cookies.get(_PENDING_COOKIE, "")


def set_pending_log_in(
    response: Response[Any], request: AnyRequest, settings: Settings, token: str | None
) -> None:
    """Set the cookie of a log-in that waits for a code; None removes it."""
    _set_cookie(response, request, settings, _PENDING_COOKIE, token, PENDING_S)


def sign_on_attempt(request: AnyRequest) -> str:
    """The sealed single sign-on attempt; empty if there is none."""
    return request.cookies.get(_SIGN_ON_COOKIE, "")


def set_sign_on_attempt(
    response: Response[Any], request: AnyRequest, settings: Settings, sealed: str | None
) -> None:
    """Set the cookie of a sealed single sign-on attempt; None removes it."""
    _set_cookie(response, request, settings, _SIGN_ON_COOKIE, sealed, ATTEMPT_S)


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


async def provide_caller(
    request: AnyRequest,
    accounts: NamedDependency[AccountService],
    key_service: NamedDependency[KeyService],
    settings: NamedDependency[Settings],
) -> Caller:
    """The caller of a route that accepts an API key or a session. The key takes precedence."""
    authorization = request.headers.get("authorization")
    if _is_bearer(authorization) or session_token(request) is None:
        caller = await key_service.authenticate(authorization)
        _require_rights(request, caller)
        return caller
    return (await _session(request, accounts, settings)).caller


async def provide_current_user(
    request: AnyRequest,
    accounts: NamedDependency[AccountService],
    key_service: NamedDependency[KeyService],
    settings: NamedDependency[Settings],
) -> CurrentUser:
    """The user of a route that accepts only a session. `Forbidden` for a valid API key."""
    if session_token(request) is not None:
        return await _session(request, accounts, settings)
    authorization = request.headers.get("authorization")
    if not _is_bearer(authorization):
        raise Unauthorized(
            "Log in first: this route requires the session cookie.", code="not_signed_in"
        )
    await key_service.authenticate(authorization)
    raise Forbidden(
        "An API key cannot do this. Log in and use the session cookie.", code="session_required"
    )


def _require_rights(request: AnyRequest, caller: Caller) -> None:
    """`Forbidden` if the key lacks the route's scope, or is for another website.

    A key for one website may use routes that name a website in the path or the query, and routes
    that check the website of their records themselves.
    """
    require_scope(caller.scopes, scopes_of(request.route_handler, request.method))
    if caller.website_id is None or request.route_handler.opt.get(CHECKS_WEBSITE):
        return
    named = [*request.query_params.getall("websiteId", [])]
    if "website_id" in request.path_params:
        named.append(request.path_params["website_id"])
    if set(named) != {caller.website_id}:
        raise wrong_website_of_key(caller.website_id)


async def _session(
    request: AnyRequest, accounts: AccountService, settings: Settings
) -> CurrentUser:
    require_same_origin(request, settings)
    current_user = await to_thread.run_sync(accounts.session, session_token(request) or "")
    upload_media_types = request.route_handler.opt.get(UPLOAD_MEDIA_TYPES, ())
    if _has_body(request) and media_type_of(request) not in upload_media_types:
        if upload_media_types:
            raise UnsupportedMedia(
                "With the session cookie, send the file with the header "
                f"Content-Type: {listed(upload_media_types, 'or')}."
            )
        require_json(request)
    return current_user


def require_same_origin(request: AnyRequest, settings: Settings) -> None:
    """`Forbidden` for a browser request from another site.

    Clients other than browsers send neither header and pass.
    """
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    own = (
        f"{request.scope['scheme']}://{request.headers.get('host', '')}".lower(),
        _origin_of(settings.base_url),
    )
    if (origin is not None and origin.lower() not in own) or site not in (
        None,
        "same-origin",
        "none",
    ):
        raise Forbidden(
            "A browser may use its session only from Penstock's own pages. If this page is one, "
            "set PENSTOCK_PUBLIC_URL to its address.",
            code="foreign_origin",
        )


def is_local_client(request: AnyRequest) -> bool:
    """Whether the client connects directly from this machine.

    A local reverse proxy also connects from this machine, but sends forwarding headers. A `Host`
    other than the loopback name also indicates a proxy, or a foreign page (DNS rebinding).
    """
    forwarded = any(
        name in ("forwarded", "via", "x-real-ip") or name.startswith("x-forwarded-")
        for name in request.headers
    )
    host = urlsplit("//" + request.headers.get("host", "")).hostname or ""
    return (
        not forwarded
        and _is_loopback(host)
        and request.client is not None
        and _is_loopback(request.client.host)
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _is_bearer(authorization: str | None) -> bool:
    return (authorization or "")[:7].lower() == "bearer "


def _has_body(request: AnyRequest) -> bool:
    return (
        request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    )


def _origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()
