"""The public side on the wire: raw requests, raw responses, and a fast path past the framework.

Routing and the framework's request and response objects take longer than everything else that a
redirect needs. So a plain `GET /l/{slug}` is answered before the framework sees it. Any other
request, and any failure before the click is recorded, goes to the route.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from litestar import HttpMethod
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from penstock.links.clicks.model import Click
from penstock.links.management.qr import SCAN_MARK
from penstock.links.model import PUBLIC_PATH, SLUG
from penstock.links.redirect.landing_page import (
    HEADERS,
    PAGE_HEADERS,
    SCRIPTED_PAGE_HEADERS,
    missing_page,
)
from penstock.links.redirect.languages import accepted_languages, page_language
from penstock.links.redirect.model import Visit
from penstock.links.redirect.service import RedirectService

_ROUTE = PUBLIC_PATH + "{slug}"
_SCAN_MARK = SCAN_MARK.encode()
_PURPOSE_HEADERS = (b"sec-purpose", b"purpose", b"x-moz")
_PREFETCH_MARKS = (b"prefetch", b"prerender", b"preview")


def _raw_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


_REDIRECT_HEADERS = _raw_headers({**HEADERS, "Content-Type": "text/plain", "Content-Length": "0"})
_HTML = {"Content-Type": "text/html; charset=utf-8"}
_PAGE_HEADERS = _raw_headers({**PAGE_HEADERS, **_HTML})
_SCRIPTED_PAGE_HEADERS = _raw_headers({**SCRIPTED_PAGE_HEADERS, **_HTML})


class RawResponse(NamedTuple):
    """An ASGI response, sent unchanged."""

    status: int
    headers: Iterable[tuple[bytes, bytes]]
    body: bytes = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


class RedirectFastPath:
    """ASGI middleware: answers a plain `GET /l/{slug}` and hands everything else on."""

    def __init__(self, app: ASGIApp, redirects: RedirectService) -> None:
        self._app, self._redirects = app, redirects

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        slug = _plain_slug(scope)
        if slug is None:
            await self._app(scope, receive, send)
            return
        scope["path_template"] = _ROUTE
        visit = _visit(cast("HTTPScope", scope), slug)
        try:
            response, click = await _prepare(self._redirects, visit)
        except Exception:  # the route meets the same error and reports it
            await self._app(scope, receive, send)
            return
        # No fallback from here on: the route would record the click again.
        if click is not None:
            self._redirects.record(visit, click)
        await response(scope, receive, send)


async def respond(redirects: RedirectService, scope: HTTPScope, slug: str) -> RawResponse:
    """The response to a request for a link; records its click."""
    visit = _visit(scope, slug)
    response, click = await _prepare(redirects, visit)
    if click is not None:
        redirects.record(visit, click)
    return response


async def _prepare(redirects: RedirectService, visit: Visit) -> tuple[RawResponse, Click | None]:
    """The complete response, and the click to record before it is sent."""
    status, page, has_script, location, click = await redirects.respond(visit)
    if status == 302:
        headers = [*_REDIRECT_HEADERS, (b"location", location.encode("ascii"))]
        return RawResponse(status, headers), click
    body = page.encode()
    page_headers = _SCRIPTED_PAGE_HEADERS if has_script else _PAGE_HEADERS
    headers = [*page_headers, (b"content-length", b"%d" % len(body))]
    return RawResponse(status, headers, b"" if visit.is_head else body), click


def link_not_found(scope: HTTPScope) -> RawResponse:
    """The page for an unknown link, for anything else that is asked of the links' host."""
    accept_language = dict(scope["headers"]).get(b"accept-language", b"").decode("latin-1")
    body = missing_page(page_language(accepted_languages(accept_language))).encode()
    headers = [*_PAGE_HEADERS, (b"content-length", b"%d" % len(body))]
    return RawResponse(404, headers, b"" if scope["method"] == HttpMethod.HEAD else body)


def _plain_slug(scope: Any) -> str | None:
    """The slug of a plain GET of a link; None for any other request."""
    if (
        scope["type"] != "http"
        or scope["method"] != HttpMethod.GET
        or not scope["path"].startswith(PUBLIC_PATH)
    ):
        return None
    slug: str = scope["path"][len(PUBLIC_PATH) :]
    return slug if SLUG.fullmatch(slug) else None


def _visit(scope: HTTPScope, slug: str) -> Visit:
    """Of the query only the mark of a QR code counts: target and campaign are stored."""
    headers = dict(scope["headers"])  # the last of repeated headers counts
    purposes = [headers[name].lower() for name in _PURPOSE_HEADERS if name in headers]
    return Visit(
        slug=slug,
        user_agent=headers.get(b"user-agent", b"").decode("latin-1"),
        address=scope["client"][0] if scope["client"] else "",
        accept_language=headers.get(b"accept-language", b"").decode("latin-1"),
        referrer=headers.get(b"referer", b"").decode("latin-1"),
        is_head=scope["method"] == HttpMethod.HEAD,
        is_prefetch=any(mark in purpose for purpose in purposes for mark in _PREFETCH_MARKS),
        is_scan=_SCAN_MARK in scope["query_string"].split(b"&"),
    )
