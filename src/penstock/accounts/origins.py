"""Checks on the origin of a request: the site of a browser's page, and whether it is this
machine.
"""

from functools import partial
from ipaddress import ip_address
from urllib.parse import urlsplit

from litestar.handlers import BaseRouteHandler

from penstock.base.errors import Forbidden
from penstock.http.handlers import route
from penstock.http.requests import AnyRequest
from penstock.settings import Settings


def require_same_origin(request: AnyRequest, settings: Settings) -> None:
    """Raise `Forbidden` for a browser request from another site.

    Requests without an `Origin` or `Sec-Fetch-Site` header pass, because browsers send at least one
    of them.
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


async def _check_origin(request: AnyRequest, _: BaseRouteHandler) -> None:
    require_same_origin(request, request.app.state.objects.services.settings)


own_page_route = partial(route, open_to_all=True, handler_options={"guards": [_check_origin]})
"""Like `route`, for requests without a session, such as a log-in. It first rejects browser requests
from other sites.
"""


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


def _origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()
