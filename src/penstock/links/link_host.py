"""Restricts the link host to links, association files and health checks.

The main host serves the dashboard, the API and links.
"""

from typing import Any
from urllib.parse import urlsplit

from litestar.types import ASGIApp, Receive, Send

from penstock.links.association.service import ANDROID_FILE, APPLE_FILE
from penstock.links.model import slug_of_path
from penstock.links.redirect.asgi import link_not_found

_PATHS = (APPLE_FILE, ANDROID_FILE, "/health/live", "/health/ready")


class LinkHost:
    """ASGI middleware that returns 404 to all other requests to the link host."""

    def __init__(self, app: ASGIApp, link_host: str) -> None:
        self._app, self._name = app, _host_name(link_host.encode())

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        app = link_not_found(scope) if self._refuses(scope) else self._app
        await app(scope, receive, send)

    def _refuses(self, scope: Any) -> bool:
        return (
            scope["type"] == "http"
            and not _is_public(scope["path"])
            and any(
                name == b"host" and _host_name(value) == self._name
                for name, value in scope["headers"]
            )
        )


def _is_public(path: str) -> bool:
    return path in _PATHS or slug_of_path(path) is not None


def _host_name(host: bytes) -> str:
    """Return the host name without the port, which proxies may change. Empty if it cannot be
    parsed.
    """
    try:
        name = urlsplit(f"//{host.decode('latin-1')}").hostname or ""
    except ValueError:
        return ""
    return name.removesuffix(".")
