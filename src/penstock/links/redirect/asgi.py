"""Handles public links at the ASGI level.

The framework's request and response objects would take more time than the rest of a redirect.
"""

from collections.abc import Mapping

from litestar import HttpMethod
from litestar.types import HTTPScope

from penstock.http.direct import RawResponse
from penstock.links.management.qr import SCAN_MARK
from penstock.links.model import slug_of_path
from penstock.links.redirect.landing_page import (
    HEADERS,
    PAGE_HEADERS,
    SCRIPTED_PAGE_HEADERS,
    missing_page,
)
from penstock.links.redirect.languages import accepted_languages, page_language
from penstock.links.redirect.model import LinkResponse, Visit
from penstock.links.redirect.service import RedirectService

_SCAN_MARK = SCAN_MARK.encode()
_PURPOSE_HEADERS = (b"sec-purpose", b"purpose", b"x-moz")
_PREFETCH_MARKS = (b"prefetch", b"prerender", b"preview")


def _raw_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


_REDIRECT_HEADERS = _raw_headers({**HEADERS, "Content-Type": "text/plain", "Content-Length": "0"})
_HTML = {"Content-Type": "text/html; charset=utf-8"}
_PAGE_HEADERS = _raw_headers({**PAGE_HEADERS, **_HTML})
_SCRIPTED_PAGE_HEADERS = _raw_headers({**SCRIPTED_PAGE_HEADERS, **_HTML})


async def respond(redirects: RedirectService, scope: HTTPScope) -> RawResponse:
    """Respond to a request for a link, and record its click."""
    visit = _visit(scope, slug_of_path(scope["path"]) or "")
    response = await redirects.respond(visit)
    raw = _raw_response(visit, response)
    if response.click is not None:
        redirects.record(visit, response.click)
    return raw


def _raw_response(visit: Visit, response: LinkResponse) -> RawResponse:
    if response.status == 302:
        location = (b"location", response.location.encode("ascii"))
        return RawResponse(302, (*_REDIRECT_HEADERS, location))
    body = response.page.encode()
    page_headers = _SCRIPTED_PAGE_HEADERS if response.has_script else _PAGE_HEADERS
    headers = (*page_headers, (b"content-length", b"%d" % len(body)))
    return RawResponse(response.status, headers, b"" if visit.is_head else body)


def link_not_found(scope: HTTPScope) -> RawResponse:
    """Return the page for an unknown link. The link host also sends it in response to all other
    requests.
    """
    accept_language = dict(scope["headers"]).get(b"accept-language", b"").decode("latin-1")
    body = missing_page(page_language(accepted_languages(accept_language))).encode()
    headers = [*_PAGE_HEADERS, (b"content-length", b"%d" % len(body))]
    return RawResponse(404, headers, b"" if scope["method"] == HttpMethod.HEAD else body)


def _visit(scope: HTTPScope, slug: str) -> Visit:
    """Convert a request into a `Visit`."""
    headers = dict(scope["headers"])  # if a header is repeated, the last one counts
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
        query=scope["query_string"].decode("latin-1"),
    )
