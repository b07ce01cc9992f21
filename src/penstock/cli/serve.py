"""`penstock serve`: run the service in the foreground until SIGTERM or Ctrl-C."""

import errno
import gc
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from penstock import __version__
from penstock.cli.configuration import start_command
from penstock.cli.descriptors import fit_connections
from penstock.cli.options import Config, Data, Host, Port, fail
from penstock.cli.stopping import end_now, limit_stop
from penstock.cli.stores import open_services
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.app import Services

_BACKLOG = 2048
_SHUTDOWN_TIMEOUT_S = 10
"""Maximum time for running requests to finish at shutdown, in seconds."""
_SWITCH_INTERVAL_S = 0.001
"""Time for which a thread computes before another one may continue, in seconds. A request switches
threads several times. With Python's 5 ms, posts wait longer while other threads decode bodies.
"""


def serve(
    context: typer.Context,
    host: Host = None,
    port: Port = None,
    data: Data = None,
    config: Config = None,
) -> None:
    """Run the service until SIGTERM or Ctrl-C."""
    run(
        start_command(config, context.obj, host=host, port=port, data=data),
        lambda services: print(banner(services), flush=True),
    )


def run(settings: Settings, on_started: Callable[["Services"], None]) -> None:
    """Serve until a signal arrives, then shut down in order.

    on_started: called in a thread once the service answers requests.
    """
    # Everything loaded during startup stays in use, so collecting garbage would waste a fifth of
    # the start-up time.
    gc.disable()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    # Both signals exit with 0: during startup through these handlers, later once the server has
    # shut down.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop_start)
    with bind_socket(settings) as listener:
        bound = fit_connections(settings.model_copy(update={"port": listener.getsockname()[1]}))
        with open_services(bound) as services:
            _serve(services, listener, on_started)
    if services.warehouse.is_left_open:
        end_now(0)


def _stop_start(*_: object) -> None:
    limit_stop()
    sys.exit(0)


def bind_socket(settings: Settings) -> socket.socket:
    """Bind the socket before any store is opened, so that a port already in use is reported at
    once.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            fail(f"port {settings.port} on {settings.host} is in use; choose another with --port")
        fail(f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}")


def _serve(
    services: "Services", listener: socket.socket, on_started: Callable[["Services"], None]
) -> None:
    import uvicorn
    from anyio import to_thread

    from penstock.app import build_app
    from penstock.edge.protocol import EdgeProtocol

    class Server(uvicorn.Server):
        failure: Exception | None = None

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            limit_stop()
            super().handle_exit(sig, frame)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                try:
                    await to_thread.run_sync(on_started, services)
                except Exception as error:  # the error was raised after an orderly shutdown
                    self.failure, self.should_exit = error, True

    app = build_app(services)
    protocol: Any = partial(EdgeProtocol, services.connections)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the application itself reads the headers that proxies send
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S,
    )
    # Everything loaded so far lives until the process ends. A full garbage collection of it would
    # stop all requests for 0.1 s and free less than 1 % of the objects. Requests leave few cycles,
    # so collect less often than by default.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()
    server = Server(config)
    server.run(sockets=[listener])
    if not server.started:
        fail("the service could not start; see the log above")
    if server.failure:
        raise server.failure


def banner(services: "Services") -> str:
    """Build the text that the operator sees after the start: addresses, the data folder and how to
    sign up.
    """
    address = services.settings.base_url
    lines = [
        f"Penstock {__version__} serves {address}",
        f"  API   {address}/api/docs",
        f"  Data  {services.settings.data.resolve()}",
    ]
    if token := services.accounts.setup_token:
        lines += [
            "",
            f"No account exists yet. Create the first one at {address}/signup, or with:",
            "",
            *_sign_up(services.settings, token),
        ]
    return "\n".join(lines)


def _sign_up(settings: Settings, setup_token: str) -> list[str]:
    """Build the command that creates the first account.

    The command contains the setup token, because it may be run behind a proxy or on another
    machine.
    """
    account = (
        """'{"email": "you@example.com", "password": "at least 8 characters", """
        """"workspaceName": "Shop"}'"""
    )
    return [
        f"  curl {settings.base_url}/api/auth/signup -c penstock.cookies "
        "-H 'Content-Type: application/json' \\",
        f"    -H 'X-Setup-Token: {setup_token}' \\",
        f"    -d {account}",
    ]
