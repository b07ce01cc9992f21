"""Gives each test an application over its own services. It reuses built routes, because building
them takes a quarter of a second.
"""

from typing import Any, cast

from litestar import Litestar
from litestar.types import Receive, Scope, Send

import penstock.app
from penstock.app import Services, build_routes, with_edge
from penstock.edge.layer import EdgeLayer


class _Routes:
    """Built routes, whose handlers use the services of the current test."""

    services: Services

    def __init__(self) -> None:
        self.app: Litestar = build_routes(cast("Services", self))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.services, name)


_unused: list[_Routes] = []
"""Built routes that no test uses at the moment. There are as many as tests have needed at once."""


class BorrowedRoutes:
    """Borrows built routes while it runs, or builds them if none are free."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._running: _Routes | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._running is not None:
            await self._running.app(scope, receive, send)
            return
        routes = _unused.pop() if _unused else _Routes()
        routes.services = self._services
        if scope["type"] == "lifespan":  # type: ignore[comparison-overlap]
            self._running = routes
        try:
            await routes.app(scope, receive, send)
        finally:
            self._running = None
            _unused.append(routes)


def application(services: Services) -> EdgeLayer:
    """Like `build_app`, but reuses built routes."""
    return with_edge(BorrowedRoutes(services), services)


def build_ahead() -> None:
    """Build routes for the first application in advance, and make `penstock serve` use them."""
    _unused.append(_Routes())
    penstock.app.build_app = application
