"""Every error as an RFC 9457 problem document. The one place where the domain's errors meet HTTP."""

from typing import Any

import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException
from msgspec import json
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from penstock.base.errors import PenstockError, RateLimited, Unauthorized, Unavailable

log = structlog.get_logger()

_TITLES = {404: "Not found", 405: "Method not allowed", 400: "Malformed request", 413: "Too large"}


def problem(request: Request[Any, Any, Any], status: int, code: str, title: str, detail: str, **more: Any) -> Response[bytes]:
    """A problem document. `type` is a relative reference to the page that explains the code."""
    document = {
        "type": f"/api/docs/errors#{code}",
        "title": title,
        "status": status,
        "code": code,
        "detail": detail,
        "instance": request.url.path,
        **more,
    }
    return Response(json.encode(document), status_code=status, media_type="application/problem+json")


def on_penstock_error(request: Request[Any, Any, Any], error: PenstockError) -> Response[bytes]:
    more = {"errors": [{"field": f.field, "code": f.code, "message": f.message} for f in error.faults]} if error.faults else {}
    response = problem(request, error.status, error.code, error.title, error.detail, **more)
    if isinstance(error, Unauthorized):
        response.headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, Unavailable) and error.retry_after_s is not None:
        response.headers["Retry-After"] = str(error.retry_after_s)
    if isinstance(error, RateLimited):
        policy = error.policy
        response.headers["Retry-After"] = str(error.retry_after_s)
        response.headers["RateLimit-Policy"] = f'"{policy.name}";q={policy.quota};w={policy.window_s}'
        response.headers["RateLimit"] = f'"{policy.name}";r=0;t={error.retry_after_s}'
    return response


def on_http_exception(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """What the framework itself refuses: no such route, a method that a route does not have."""
    title = _TITLES.get(error.status_code, "Request refused")
    detail = {404: "There is nothing at this address.", 405: f"This address does not take {request.method}."}.get(
        error.status_code, error.detail
    )
    response = problem(request, error.status_code, title.lower().replace(" ", "_"), title, detail)
    response.headers.update(error.headers or {})
    return response


def on_database_error(request: Request[Any, Any, Any], error: SQLAlchemyError) -> Response[bytes]:
    """The metadata DB cannot be reached, has gone away, or keeps the request waiting too long."""
    log.error("database_failed", method=request.method, path=request.url.path, exc_info=error)
    gone = Unavailable("The metadata database does not answer right now; try again.", code="store_unavailable", retry_after_s=1)
    return on_penstock_error(request, gone)


def on_unexpected(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """A fault of ours. The log has the trace, the caller gets no inside."""
    log.error("request_failed", method=request.method, path=request.url.path, exc_info=error)
    return problem(request, 500, "internal_error", "Internal error", "Something went wrong on our side; the log has the details.")


EXCEPTION_HANDLERS: dict[int | type[Exception], Any] = {
    PenstockError: on_penstock_error,
    HTTPException: on_http_exception,
    OperationalError: on_database_error,
    PoolTimeout: on_database_error,
    Exception: on_unexpected,
}


def problem_of(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """The document that a request would be answered with if a route raised the error."""
    handler = next(EXCEPTION_HANDLERS[kind] for kind in type(error).__mro__ if kind in EXCEPTION_HANDLERS)
    response: Response[bytes] = handler(request, error)
    return response
