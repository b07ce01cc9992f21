"""What readers see when a page cannot be shown: a page in plain words, never a JSON document."""

from typing import Any, NamedTuple
from urllib.parse import quote

import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.response import Redirect

from penstock.base.errors import PenstockError
from penstock.http.problems import EXCEPTION_HANDLERS, on_http_exception, problem_of
from penstock.web.rendering import html
from penstock.web.view import LogInFirst

log = structlog.get_logger()

AnyRequest = Request[Any, Any, Any]
_OF_PROGRAMS = ("/api/", "/l/", "/health/", "/.well-known/", "/static/")


class Told(NamedTuple):
    title: str
    text: str


_WORDS = {
    404: Told("There is nothing here", "The address leads to nothing in this workspace. It may have been deleted, or belong to another."),
    405: Told("There is nothing here", "The address is right, but not for a page."),
    503: Told("Not right now", "Penstock cannot read its stores at the moment. Try again in a few seconds."),
}
TOO_MUCH = frozenset({"query_timeout", "query_too_large"})
"""Codes of answers that the limits of the workspace stopped. Their text names the way out."""

_BROKEN = Told("Something went wrong", "The fault is on this side. The log of the service has the details.")


def on_log_in_first(request: AnyRequest, error: LogInFirst) -> Response[Any]:
    """A part of a page is told so, for its page is still open and may hold what was typed; a page is left for the log-in."""
    if "hx-request" in request.headers:
        return Response(b"", status_code=401, media_type="text/html")
    suffix = "" if error.next_path == "/" else f"?next={quote(error.next_path, safe='/')}"
    return Redirect(f"/login{suffix}", status_code=302)


def on_page_error(request: AnyRequest, error: Exception) -> Response[Any]:
    """The status and the log line are those of the API."""
    status = problem_of(request, error).status_code or 500
    told = _WORDS.get(status, _BROKEN)
    if isinstance(error, PenstockError) and error.code in TOO_MUCH:
        told = Told("That is too much at once", error.detail)
    elif isinstance(error, PenstockError) and status not in _WORDS:
        told = Told(error.title, error.detail)
    return html(request, "message.html", {"told": told, "code": status}, status=status)


def on_unknown_address(request: AnyRequest, error: HTTPException) -> Response[Any]:
    """For an address that no route has: a page for people, a problem document for programs."""
    asks_for_page = "text/html" in request.headers.get("accept", "") and request.method in ("GET", "HEAD")
    if asks_for_page and not request.url.path.startswith(_OF_PROGRAMS):
        return on_page_error(request, error)
    return on_http_exception(request, error)


PAGE_HANDLERS: dict[int | type[Exception], Any] = {**dict.fromkeys(EXCEPTION_HANDLERS, on_page_error), LogInFirst: on_log_in_first}
