"""HTTP of the public side of managed links.

Closer to the wire than other routes: headers are read and written as they are, and a plain `GET /l/{slug}` is answered before the framework
sees it, since finding the route and making the framework's objects take longer than everything that a redirect itself needs. Whatever is
unusual about a request, and whatever fails, goes the ordinary way, to the route.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from litestar import HttpMethod, Request, route
from litestar.di import NamedDependency
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from penstock.links.opening import LinkOpener, Visit
from penstock.links.pages import HEADERS, PAGE_HEADERS
from penstock.links.qr import SCANNED
from penstock.links.schema import SLUG

AnyRequest = Request[Any, Any, Any]
RawHeaders = Iterable[tuple[bytes, bytes]]

_PREFIX = "/l/"
_SCANNED = SCANNED.encode()
_PREFETCHING = (b"prefetch", b"prerender", b"preview")


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


_REDIRECT_HEADERS = _raw({**HEADERS, "Content-Type": "text/plain", "Content-Length": "0"})
_PAGE_HEADERS = _raw({**PAGE_HEADERS, "Content-Type": "text/html; charset=utf-8"})


class RawAnswer(NamedTuple):
    """A response that is sent as it is."""

    status: int
    headers: RawHeaders
    body: bytes = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


class PublicSide:
    """Around the application: answers `GET /l/{slug}` where it can, and hands everything else on."""

    def __init__(self, app: ASGIApp, opener: LinkOpener) -> None:
        self._app, self._opener = app, opener

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        slug = _plain_slug(scope)
        if slug is not None:
            try:
                answer = await _answer(self._opener, cast("HTTPScope", scope), slug)
            except Exception:  # whatever it is, the ordinary way meets it too, and answers it
                slug = None
        await (self._app(scope, receive, send) if slug is None else answer(scope, receive, send))


@route("/l/{slug:path}", http_method=[HttpMethod.GET, HttpMethod.HEAD], status_code=200)
async def open_link(request: AnyRequest, opener: NamedDependency[LinkOpener]) -> RawAnswer:
    return await _answer(opener, request.scope, str(request.path_params["slug"]).removeprefix("/"))


def _plain_slug(scope: Any) -> str | None:
    """The slug that a plain GET is for; None for anything else."""
    if scope["type"] != "http" or scope["method"] != HttpMethod.GET or not scope["path"].startswith(_PREFIX):
        return None
    slug: str = scope["path"][len(_PREFIX) :]
    return slug if SLUG.fullmatch(slug) else None


async def _answer(opener: LinkOpener, scope: HTTPScope, slug: str) -> RawAnswer:
    """Of the query only the mark of a QR code is taken: where a link leads and what it counts as is stored."""
    is_head = scope["method"] == HttpMethod.HEAD
    opened = await opener.open(_visit(scope, slug, is_head=is_head))
    if opened.status == 302:
        return RawAnswer(302, [*_REDIRECT_HEADERS, (b"location", opened.location.encode("ascii"))])
    page = opened.page.encode()
    return RawAnswer(opened.status, [*_PAGE_HEADERS, (b"content-length", b"%d" % len(page))], b"" if is_head else page)


def _visit(scope: HTTPScope, slug: str, *, is_head: bool) -> Visit:
    sent = dict(scope["headers"])  # of a header that comes twice the last one counts
    purposes = (sent.get(name, b"").lower() for name in (b"sec-purpose", b"purpose", b"x-moz"))
    return Visit(
        slug=slug,
        user_agent=sent.get(b"user-agent", b"").decode("latin-1"),
        address=scope["client"][0] if scope["client"] else "",
        accept_language=sent.get(b"accept-language", b"").decode("latin-1"),
        referrer=sent.get(b"referer", b"").decode("latin-1"),
        is_head=is_head,
        prefetched=any(mark in purpose for purpose in purposes if purpose for mark in _PREFETCHING),
        scanned=_SCANNED in scope["query_string"].split(b"&"),
    )
