"""Serves `/metrics` on a separate port and thread.

The server therefore answers even while the event loop is blocked, and the limits of the public port
do not apply. It does not require a log-in, so by default it listens on the loopback interface only.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import structlog
from anyio import to_thread
from prometheus_client import CollectorRegistry, start_http_server

from penstock.base.metrics import REGISTRY, PolledGauge, PolledGauges

log = structlog.get_logger()


class MetricsServer:
    """Serves the process's counters and the rooms' gauges."""

    def __init__(
        self, host: str, port: int | None, gauges: Sequence[PolledGauge | PolledGauges]
    ) -> None:
        """port: None disables the server; 0 chooses a free port, which is logged."""
        self._host, self._port = host, port
        self._registry = CollectorRegistry()
        self._registry.register(REGISTRY)
        for gauge in gauges:
            self._registry.register(gauge)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve metrics during the context."""
        if self._port is None:
            yield
            return
        server, thread = start_http_server(self._port, self._host, self._registry)
        server.set_app(_add_nosniff(server.get_app()))
        log.info("metrics_served", host=self._host, port=server.server_port)
        try:
            yield
        finally:
            await to_thread.run_sync(server.shutdown)
            server.server_close()
            thread.join()


def _add_nosniff(app: WSGIApplication | None) -> WSGIApplication:
    """Wrap the application so that its responses forbid content sniffing, like responses on the
    public port.
    """
    assert app is not None

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
            return start_response(status, [*headers, ("X-Content-Type-Options", "nosniff")], *error)

        return app(environ, start)

    return answer
