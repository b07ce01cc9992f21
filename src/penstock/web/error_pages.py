"""Shows errors as pages for people, never as JSON."""

from typing import Any, NamedTuple
from urllib.parse import quote

from litestar import Response
from litestar.exceptions import HTTPException
from litestar.response import Redirect

from penstock.accounts.session_cookies import session_token
from penstock.base.errors import PenstockError
from penstock.http.problems import EXCEPTION_HANDLERS, on_http_exception, problem_of
from penstock.http.requests import AnyRequest, path_of
from penstock.web.nav import NAV, Entry
from penstock.web.rendering import html
from penstock.web.view import LogInRequired

_PROGRAM_PATHS = (
    *("/api/", "/l/", "/health/", "/.well-known/", "/static/"),
    *("/v1/", "/beacon/", "/projects/", "/sourceConfig"),
)


class Message(NamedTuple):
    title: str
    text: str


_MESSAGES = {
    404: Message(
        "Page not found",
        "This page does not exist in this workspace. "
        "It may have been deleted, or it belongs to another workspace.",
    ),
    405: Message("Page not found", "This page does not exist."),
    503: Message(
        "Temporarily unavailable",
        "Penstock cannot read its databases right now. Try again in a few seconds.",
    ),
}
_INTERNAL_ERROR = Message(
    "Something went wrong", "Penstock had an internal error. The service log has the details."
)
LIMIT_CODES = frozenset({"query_timeout", "query_too_large"})
"""Codes for queries that were stopped by a limit of the workspace. Their details say what to do."""


def on_log_in_required(request: AnyRequest, error: LogInRequired) -> Response[Any]:
    """Redirect to the log-in page. Part of a page gets 401 instead, because the page may contain
    unsaved input.
    """
    if "hx-request" in request.headers:
        return Response(b"", status_code=401, media_type="text/html")
    suffix = "" if error.next_path == "/" else f"?next={quote(error.next_path, safe='/')}"
    return Redirect(f"/login{suffix}", status_code=302)


def on_page_error(request: AnyRequest, error: Exception) -> Response[Any]:
    """Show an error as a page, with the same status and log line as the API."""
    status = problem_of(request, error).status_code or 500
    message = _MESSAGES.get(status, _INTERNAL_ERROR)
    if isinstance(error, PenstockError) and error.code in LIMIT_CODES:
        message = Message("This takes too long", error.detail)
    elif isinstance(error, PenstockError) and status not in _MESSAGES:
        message = Message(error.title, error.detail)
    content = {"message": message, "code": status, "path": path_of(request), "nav": _nav(request)}
    return html(request, "message.html", content, status=status)


def _nav(request: AnyRequest) -> list[Entry]:
    """Return the navigation of an error page: empty for readers without a session.

    It does not read the session, because the error may be that the database does not respond.
    """
    if not session_token(request):
        return []
    is_owner = request.state.get("is_owner", False)
    return [entry for entry in NAV if is_owner or not entry.for_owners]


def on_unknown_address(request: AnyRequest, error: HTTPException) -> Response[Any]:
    """Answer an unknown address with a page for browsers, or with a problem document for
    programs.
    """
    accepts_html = "text/html" in request.headers.get("accept", "")
    is_program = path_of(request).startswith(_PROGRAM_PATHS)
    if accepts_html and request.method in ("GET", "HEAD") and not is_program:
        return on_page_error(request, error)
    return on_http_exception(request, error)


PAGE_HANDLERS: dict[int | type[Exception], Any] = {
    **dict.fromkeys(EXCEPTION_HANDLERS, on_page_error),
    LogInRequired: on_log_in_required,
}
