"""RFC 9457 problem documents for all errors. Only this module maps domain errors to HTTP."""

from collections.abc import Callable
from typing import Any

import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.types import ASGIApp, Receive, Scope, Send
from pydantic_core import to_json

from penstock.base.errors import (
    PenstockError,
    RateLimited,
    RatePolicy,
    StoreUnavailable,
    Unauthorized,
    Unavailable,
)
from penstock.base.request_ids import REQUEST_ID
from penstock.http.requests import AnyRequest, shown_path_of

log = structlog.get_logger()

_TITLES = {404: "Not found", 405: "Method not allowed", 400: "Malformed request", 413: "Too large"}


def problem(
    request: AnyRequest, status: int, code: str, title: str, detail: str, **more: Any
) -> Response[bytes]:
    """Build a problem document. `type` is a relative reference to the page that explains the
    code.
    """
    request_id = REQUEST_ID.get()
    document = {
        "type": f"/api/docs/errors#{code}",
        "title": title,
        "status": status,
        "code": code,
        "detail": detail,
        "instance": shown_path_of(request),
        **({"requestId": request_id} if request_id else {}),
        **more,
    }
    return Response(to_json(document), status_code=status, media_type="application/problem+json")


def on_penstock_error(request: AnyRequest, error: PenstockError, **more: Any) -> Response[bytes]:
    """Build the response to a domain error. more: additional fields for the problem document."""
    forget_trace(error)
    if error.faults:
        more["errors"] = [
            {"field": fault.field, "code": fault.code, "message": fault.message}
            for fault in error.faults
        ]
    if error.more_faults:
        more["moreErrors"] = error.more_faults
    response = problem(request, error.status, error.code, error.title, error.detail, **more)
    if isinstance(error, Unauthorized):
        response.headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, Unavailable) and error.retry_after_s is not None:
        response.headers["Retry-After"] = str(error.retry_after_s)
    if isinstance(error, RateLimited):
        response.headers["Retry-After"] = str(error.retry_after_s)
        for name, value in rate_headers(error.policy, 0, error.retry_after_s):
            response.headers[name.decode()] = value.decode()
    return response


def forget_trace(error: PenstockError) -> None:
    """Release the objects in an error's frames, such as a body of 10 MB.

    An error raised in a thread refers to itself through its traceback. Without this call, the error
    would live until the next garbage collection, which large bytes objects do not trigger.
    """
    error.__traceback__ = None


def rate_headers(policy: RatePolicy, remaining: int, reset_s: int) -> list[tuple[bytes, bytes]]:
    """Return headers for the remaining quota. Source: draft-ietf-httpapi-ratelimit-headers."""
    return [
        (b"ratelimit-policy", f'"{policy.name}";q={policy.quota};w={policy.window_s}'.encode()),
        (b"ratelimit", f'"{policy.name}";r={remaining};t={reset_s}'.encode()),
    ]


def on_http_exception(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    """Build the response to a framework error: an unknown route or an unsupported method."""
    title = _TITLES.get(error.status_code, "Request refused")
    detail = {
        404: "There is nothing at this URL.",
        405: f"This address does not support {request.method}.",
    }.get(error.status_code, error.detail)
    response = problem(request, error.status_code, title.lower().replace(" ", "_"), title, detail)
    response.headers.update(error.headers or {})
    return response


def on_store_unavailable(
    request: AnyRequest, error: StoreUnavailable, **more: Any
) -> Response[bytes]:
    """Build the response to a store failure. Only the log contains the reason, because it may
    contain host names.
    """
    log.warning(error.code, method=request.method, path=shown_path_of(request), reason=error.reason)
    return on_penstock_error(request, error, **more)


def on_unexpected(request: AnyRequest, error: Exception) -> Response[bytes]:
    """Build the response to a bug in Penstock. Only the log contains the stack trace."""
    log.error("request_failed", method=request.method, path=shown_path_of(request), exc_info=error)
    return problem(
        request,
        500,
        "internal_error",
        "Internal error",
        "Penstock had an internal error. The service log has the details.",
    )


EXCEPTION_HANDLERS: dict[int | type[Exception], Any] = {
    PenstockError: on_penstock_error,
    HTTPException: on_http_exception,
    StoreUnavailable: on_store_unavailable,
    Exception: on_unexpected,
}


def problem_of(request: AnyRequest, error: Exception) -> Response[bytes]:
    """Build the response to an error that a route raised."""
    handler = next(
        EXCEPTION_HANDLERS[kind] for kind in type(error).__mro__ if kind in EXCEPTION_HANDLERS
    )
    response: Response[bytes] = handler(request, error)
    return response


def problem_response(
    error: Exception, on_error: Callable[[AnyRequest, Any], Response[bytes]] = problem_of
) -> ASGIApp:
    """Return the response of `on_error` as an ASGI application."""

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        request: AnyRequest = Request(scope)
        response = on_error(request, error).to_asgi_response(app=None, request=request)
        await response(scope, receive, send)

    return respond
