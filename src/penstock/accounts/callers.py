"""Who makes a request: an API key in `Authorization`, or a browser with the session cookie. Litestar dependencies for every room.

A browser sends its cookie whoever wrote the page that makes the request. So a request by cookie counts only when it is JSON, which a
foreign form cannot send, and, where the browser says where it comes from, when it comes from our own pages.
"""

from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from anyio import to_thread
from litestar import Request
from litestar.di import NamedDependency

from penstock.accounts.model import Caller, SignedIn
from penstock.accounts.service import AccountService
from penstock.base.errors import Forbidden, Unauthorized, UnsupportedMedia
from penstock.http.bodies import require_json
from penstock.settings import Settings

SESSION_COOKIE = "service_session"
FILE_MEDIA = "file_media"
"""In a route's `opt`: a media type beside JSON that may come with a session. One that forms of foreign pages cannot send."""

AnyRequest = Request[Any, Any, Any]


async def provide_caller(request: AnyRequest, accounts: NamedDependency[AccountService], settings: NamedDependency[Settings]) -> Caller:
    """The caller of a route that takes a key or a session. A bearer key wins over a cookie."""
    authorization = request.headers.get("authorization")
    if _is_bearer(authorization) or SESSION_COOKIE not in request.cookies:
        return await accounts.authenticate(authorization)
    return (await _session(request, accounts, settings)).caller


async def provide_signed_in(
    request: AnyRequest, accounts: NamedDependency[AccountService], settings: NamedDependency[Settings]
) -> SignedIn:
    """The person of a route that takes a session only. `Forbidden` for a valid key without one."""
    if SESSION_COOKIE in request.cookies:
        return await _session(request, accounts, settings)
    authorization = request.headers.get("authorization")
    if not _is_bearer(authorization):
        raise Unauthorized("Log in first: this takes the session cookie.", code="not_signed_in")
    await accounts.authenticate(authorization)
    raise Forbidden("An API key cannot do this; log in and use the session cookie.", code="session_required")


async def _session(request: AnyRequest, accounts: AccountService, settings: Settings) -> SignedIn:
    require_own_page(request, settings)
    signed_in = await to_thread.run_sync(accounts.session, request.cookies[SESSION_COOKIE])
    file_media = request.route_handler.opt.get(FILE_MEDIA)
    if _has_body(request) and _media_type(request) != file_media:
        if file_media is not None:
            raise UnsupportedMedia(f"With the session cookie, send the file with the header Content-Type: {file_media}.")
        require_json(request)
    return signed_in


def require_own_page(request: AnyRequest, settings: Settings) -> None:
    """Refuse what a browser sends for a page that is not ours. A client that is no browser says nothing of its origin and passes."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    own = (f"{request.scope['scheme']}://{request.headers.get('host', '')}".lower(), _origin_of(settings.base_url))
    if (origin is not None and origin.lower() not in own) or site not in (None, "same-origin", "none"):
        raise Forbidden(
            "A browser may use its session only from Penstock's own pages. If this is one, set PENSTOCK_PUBLIC_URL to its address.",
            code="foreign_origin",
        )


def from_this_machine(request: AnyRequest) -> bool:
    """Whether the client runs on this machine and came here directly.

    A proxy on this machine connects from it too: its forwarding headers give it away. So does a name other than the machine's own in
    `Host`, which is also what a foreign page sends whose name was pointed here (DNS rebinding).
    """
    forwarded = any(name in ("forwarded", "via", "x-real-ip") or name.startswith("x-forwarded-") for name in request.headers)
    host = urlsplit("//" + request.headers.get("host", "")).hostname or ""
    return not forwarded and _is_loopback(host) and request.client is not None and _is_loopback(request.client.host)


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


def _media_type(request: AnyRequest) -> str:
    return request.headers.get("content-type", "").split(";")[0].strip().lower()


def _has_body(request: AnyRequest) -> bool:
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers


def _origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()
