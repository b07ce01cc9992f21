"""The fence: a moment during which nothing moves from the outbox to the event store.

A backup that reads both stores inside the fence sees each acknowledged event exactly once: in the
outbox of the metadata DB, or in the event store under a shipment's token. Only the process that has
opened the embedded engine can freeze it, so a running service listens for commands on a socket in
its data folder. The socket's file mode allows only the service's account to connect.

The protocol uses one JSON object per line. The command sends the name of the copy; the service
pauses shipping and answers with its installation. The command takes its snapshot of the metadata DB
and sends `{}`; the service freezes the engine, resumes shipping and answers.
"""

import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    closing,
    contextmanager,
    suppress,
)
from functools import partial
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import Any

import structlog
from msgspec import json

from penstock.backup.model import BackupFailed
from penstock.backup.staging import SNAPSHOTS, remove_left_over_links
from penstock.base.clock import Clock
from penstock.base.patterns import Pattern
from penstock.base.worker import Worker
from penstock.events.shipper import Shipper
from penstock.warehouse.client import Warehouse
from penstock.warehouse.frozen_copy import freeze

log = structlog.get_logger()

SOCKET = "penstock.sock"

_NAME = Pattern(r"[0-9a-z]{1,40}")
_MAX_ADDRESS_BYTES = 100
_SNAPSHOT_S = 60.0  # timeout for the command's snapshot, while shipping waits
# Timeout for the service, which may have to finish a shipment or rebuild a catalogue first.
_FREEZE_S = 600.0
_MAX_LINE = 10_000
_LEFT_OVER_PAUSE_S = 300.0
"""Pause between removals of hard links that a killed backup left behind, in seconds. Until then,
they keep deleted events on disk.
"""

Freeze = Callable[[], None]

Fence = Callable[[Path, str], AbstractContextManager[tuple[str | None, Freeze]]]
"""Context manager that pauses shipping. It takes a data folder and the name of a copy in that
folder.

Yields the installation, if known, and a function that freezes the engine.
"""


class FenceServer:
    """Lets commands on this machine freeze the engine of a running service."""

    def __init__(self, data: Path, warehouse: Warehouse, shipper: Shipper, clock: Clock) -> None:
        self._data, self._warehouse, self._shipper = data, warehouse, shipper
        # There is no stall limit, because a step may wait for a command for days.
        self._worker = Worker("backup_fence", self._step, clock, stalled_after_s=None)
        self._listener: socket.socket
        self._stop_signal: socket.socket
        self._connection: socket.socket | None = None
        self._stopping = False

    @property
    def workers(self) -> Sequence[Worker]:
        """The fence's worker. Empty with a ClickHouse server, which has its own backups."""
        return () if self._warehouse.folder is None else (self._worker,)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve commands during the context."""
        if not self.workers:
            yield
            return
        stop, self._stop_signal = socket.socketpair()
        with stop, self._stop_signal, _listener(self._data) as self._listener:
            self._stopping = False
            async with self._worker.running():
                try:
                    yield
                finally:
                    self._stopping = True
                    stop.send(b"s")
                    if self._connection is not None:
                        with suppress(OSError):
                            self._connection.shutdown(socket.SHUT_RDWR)

    def _step(self) -> float:
        """Wait for a command and serve it. The next step follows at once."""
        remove_left_over_links(self._data)
        with DefaultSelector() as ready:
            ready.register(self._listener, EVENT_READ)
            ready.register(self._stop_signal, EVENT_READ)
            has_command = bool(ready.select(_LEFT_OVER_PAUSE_S))
        if has_command and not self._stopping:
            self._connection, _ = self._listener.accept()
            if not self._stopping:
                self._serve(self._connection)
            self._connection.close()
            self._connection = None
        return 0.0

    def _serve(self, connection: socket.socket) -> None:
        """Serve one command. Shipping always resumes afterwards."""
        connection.settimeout(_SNAPSHOT_S)
        try:
            name = _receive(connection).get("name", "")
            if not _NAME.fullmatch(name):
                raise BackupFailed("not the name of a copy")
            with self._shipper.paused():
                _send(connection, {"installation": self._shipper.installation_id()})
                _receive(connection)
                freeze(self._warehouse, self._data / SNAPSHOTS / name / "warehouse")
            _send(connection, {})
        except Exception as error:  # a failure here must not affect the service
            log.warning("backup_interrupted", error=str(error) or type(error).__name__)
            with suppress(OSError):
                _send(connection, {"error": str(error) or type(error).__name__})


@contextmanager
def local_fence(data: Path, name: str) -> Iterator[tuple[None, Freeze]]:
    """The fence for a data folder without a running service, where nothing is shipped anyway."""
    with closing(Warehouse(data=data, url=None)) as warehouse:
        yield None, partial(freeze, warehouse, data / SNAPSHOTS / name / "warehouse")


@contextmanager
def remote_fence(data: Path, name: str) -> Iterator[tuple[str | None, Freeze]]:
    """The fence of the service that runs on a data folder.

    Yields the service's installation and a function that freezes the engine. Raises `BackupFailed`
    if the service does not answer or cannot freeze the engine.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_FREEZE_S)
        try:
            with _address(data) as address:
                connection.connect(address)
            _send(connection, {"name": name})
            installation = str(_answer(connection)["installation"])

            def freeze_there() -> None:
                _send(connection, {})
                _answer(connection)

            yield installation, freeze_there
        except (FileNotFoundError, ConnectionError, TimeoutError) as error:
            raise BackupFailed(
                f"the Penstock that uses {data} does not answer on {SOCKET}; "
                "wait until it has started, or stop it and try again"
            ) from error


def _answer(connection: socket.socket) -> dict[str, Any]:
    answer = _receive(connection)
    if "error" in answer:
        raise BackupFailed(f"the service could not freeze the event store: {answer['error']}")
    return answer


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    connection.sendall(json.encode(message) + b"\n")


def _receive(connection: socket.socket) -> dict[str, Any]:
    line = b""
    while not line.endswith(b"\n"):
        received = connection.recv(_MAX_LINE)
        if not received or len(line) > _MAX_LINE:
            raise ConnectionError("the other side closed the connection")
        line += received
    message: dict[str, Any] = json.decode(line, type=dict[str, Any])
    return message


@contextmanager
def _listener(data: Path) -> Iterator[socket.socket]:
    path = data / SOCKET
    # A socket that is still here belongs to a killed process, because this process holds the
    # folder's lock.
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        with suppress(OSError):
            os.fchmod(listener.fileno(), 0o600)  # Linux creates the file with this mode
        with _address(data) as address:
            listener.bind(address)
        path.chmod(0o600)
        listener.listen(1)
        listener.setblocking(False)
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


@contextmanager
def _address(data: Path) -> Iterator[str]:
    """Yield a path for the socket. A path that is too long is shortened through a file
    descriptor.
    """
    path = str((data / SOCKET).absolute())
    if len(os.fsencode(path)) <= _MAX_ADDRESS_BYTES:
        yield path
        return
    folder = os.open(data, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{SOCKET}"
    finally:
        os.close(folder)
