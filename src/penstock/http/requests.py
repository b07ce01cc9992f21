"""Requests as route handlers see them."""

from typing import Any

from litestar import Request

AnyRequest = Request[Any, Any, Any]
"""A request whose user, auth and state types do not matter: Penstock keeps them elsewhere."""


def address_of(request: AnyRequest) -> str:
    """The IP address of the client, behind trusted proxies too; empty when it is not known."""
    return request.client.host if request.client else ""


def path_of(request: AnyRequest) -> str:
    """The decoded path. Not `request.url`, which cannot be read when the `Host` is malformed."""
    path: str = request.scope["path"]
    return path


def media_type_of(request: AnyRequest) -> str:
    """The media type of the body in lower case, without parameters; empty when it is not stated."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def raw_path_of(request: AnyRequest) -> str:
    """The encoded path, without the query. The framework would split an ID at encoded slashes."""
    path: str = request.scope["raw_path"].decode("ascii").partition("?")[0]
    return path


def raw_path_after(request: AnyRequest, prefix: str) -> str:
    """The encoded path after `prefix`."""
    return raw_path_of(request).split(prefix, 1)[1]


def is_prefetch(request: AnyRequest) -> bool:
    """Whether a browser prepares a page that nobody may ever see."""
    return "prefetch" in request.headers.get("sec-purpose", "").lower()
