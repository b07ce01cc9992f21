"""Serves a test's application over its real protocol, on a loopback port."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import uvicorn
from litestar import Litestar
from litestar.testing import TestClient
from uvicorn.server import ServerState

from penstock.edge.connections import Connections
from penstock.edge.layer import EdgeLayer
from penstock.edge.protocol import EdgeProtocol
from tests.serving import http_client
from tests.waiting import PATIENCE_S


@dataclass(frozen=True)
class Wire:
    """An application behind its real protocol. client: sends requests over the protocol.

    state: the server's state, including its connections.
    """

    server: TestClient[Litestar]
    client: httpx.Client
    state: ServerState

    def connect(self) -> socket.socket:
        port = self.client.base_url.port
        return socket.create_connection(("127.0.0.1", port or 0), timeout=PATIENCE_S)

    def begin_shutdown(self) -> None:
        """Shut down the connections as a stopping server would."""

        def shut_down() -> None:
            for connection in list(self.state.connections):
                connection.shutdown()

        self.server.blocking_portal.call(shut_down)


@contextmanager
def wired(
    server: TestClient[Litestar], edge: EdgeLayer, connections: Connections
) -> Iterator[Wire]:
    app: Any = edge
    config, state = uvicorn.Config(app, log_config=None, proxy_headers=False), ServerState()

    async def listen() -> asyncio.Server:
        config.load()
        protocol: Any = partial(
            EdgeProtocol,
            connections,
            config=config,
            server_state=state,
            app_state={},
        )
        return await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)

    portal = server.blocking_portal
    listening = portal.call(listen)
    port = listening.sockets[0].getsockname()[1]
    with http_client(f"http://127.0.0.1:{port}") as client:
        yield Wire(server, client, state)
    portal.call(listening.close)
