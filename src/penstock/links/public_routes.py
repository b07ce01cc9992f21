"""HTTP of the public side of managed links.

Closer to the wire than other routes: an application of its own below `/l/`, which reads and writes headers as they are, since to make the
framework's objects of them takes longer than everything that a redirect itself needs.
"""

from collections.abc import Mapping

from litestar import HttpMethod, asgi
from litestar.exceptions import MethodNotAllowedException
from litestar.handlers import ASGIRouteHandler
from litestar.types import Receive, Scope, Send

from penstock.links.opening import LinkOpener, Visit
from penstock.links.pages import HEADERS, PAGE_HEADERS
from penstock.links.qr import SCANNED

_METHODS = (HttpMethod.GET, HttpMethod.HEAD)
_SCANNED = SCANNED.encode()
_PREFETCHING = (b"prefetch", b"prerender", b"preview")


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


_REDIRECT_HEADERS = _raw({**HEADERS, "Content-Type": "text/plain", "Content-Length": "0"})
_PAGE_HEADERS = _raw({**PAGE_HEADERS, "Content-Type": "text/html; charset=utf-8"})


def public_side(opener: LinkOpener) -> ASGIRouteHandler:
    """All of `/l/`. Of the query it takes the mark of a QR code alone: where a link leads and what it counts as is stored."""

    @asgi("/l", is_mount=True, copy_scope=False)
    async def open_link(scope: Scope, receive: Receive, send: Send) -> None:
        method = scope.get("method")
        if method not in _METHODS:
            raise MethodNotAllowedException(headers={"Allow": ", ".join(_METHODS)})
        is_head = method == HttpMethod.HEAD
        opened = await opener.open(_visit(scope, is_head=is_head))
        if opened.status == 302:
            page, headers = b"", [*_REDIRECT_HEADERS, (b"location", opened.location.encode("ascii"))]
        else:
            page = opened.page.encode()
            headers = [*_PAGE_HEADERS, (b"content-length", b"%d" % len(page))]
        await send({"type": "http.response.start", "status": opened.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if is_head else page, "more_body": False})

    return open_link


def _visit(scope: Scope, *, is_head: bool) -> Visit:
    sent = dict(scope["headers"])  # of a header that comes twice the last one counts
    purposes = (sent.get(name, b"").lower() for name in (b"sec-purpose", b"purpose", b"x-moz"))
    return Visit(
        slug=scope["path"].strip("/"),
        user_agent=sent.get(b"user-agent", b"").decode("latin-1"),
        address=scope["client"][0] if scope["client"] else "",
        accept_language=sent.get(b"accept-language", b"").decode("latin-1"),
        referrer=sent.get(b"referer", b"").decode("latin-1"),
        is_head=is_head,
        prefetched=any(mark in purpose for purpose in purposes if purpose for mark in _PREFETCHING),
        scanned=_SCANNED in scope["query_string"].split(b"&"),
    )
