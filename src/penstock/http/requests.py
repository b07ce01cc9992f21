"""Helpers that read properties of a request."""

from typing import Any

from litestar import Request

AnyRequest = Request[Any, Any, Any]
"""A request. Its user, auth and state types are arbitrary, because Penstock does not use them."""


def address_of(request: AnyRequest) -> str:
    """Return the client's IP address, even behind trusted proxies; empty if it is unknown."""
    return request.client.host if request.client else ""


def path_of(request: AnyRequest) -> str:
    """Return the decoded path. Does not use `request.url`, which fails for a malformed `Host`."""
    path: str = request.scope["path"]
    return path


def shown_path_of(request: AnyRequest) -> str:
    """Return the path for logs and problem documents, without the token of a shared report."""
    path = path_of(request)
    return "/s/{token}" if path.startswith("/s/") else path


def media_type_of(request: AnyRequest) -> str:
    """Return the body's media type in lower case, without parameters; empty if it was not sent."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def raw_path_of(request: AnyRequest) -> str:
    """Return the encoded path without the query. The framework would split an ID at encoded
    slashes.
    """
    path: str = request.scope["raw_path"].decode("ascii").partition("?")[0]
    return path


def raw_path_after(request: AnyRequest, prefix: str) -> str:
    """Return the part of the encoded path after `prefix`."""
    return raw_path_of(request).split(prefix, 1)[1]


def is_prefetch(request: AnyRequest) -> bool:
    """Whether a browser only prefetches the page, which the user may never see."""
    return "prefetch" in request.headers.get("sec-purpose", "").lower()
