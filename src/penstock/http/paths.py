"""Addresses as they were sent."""

from typing import Any

from litestar import Request


def sent_after(request: Request[Any, Any, Any], start: str) -> str:
    """What stands in the path after `start`, still encoded: an ID may hold slashes, which the framework takes for parts."""
    raw: str = request.scope["raw_path"].decode("ascii").partition("?")[0]
    return raw.split(start, 1)[1]
