"""Clients that talk to a service byte by byte, and parse its responses."""

import json
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.serving import Served
from tests.waiting import PATIENCE_S


class RawAnswer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def connect(service: Served, *, timeout_s: float = PATIENCE_S) -> socket.socket:
    host, port = service.url.removeprefix("http://").rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=timeout_s)


def send(client: socket.socket, *pieces: bytes) -> None:
    """Send until the service stops reading."""
    with suppress(ConnectionError):
        for piece in pieces:
            client.sendall(piece)


def read_to_end(client: socket.socket) -> bytes:
    """Return all bytes until the service closes the connection. Times out if it stays open."""
    received = b""
    with suppress(ConnectionError):
        while chunk := client.recv(65536):
            received += chunk
    return received


def answer_in(received: bytes) -> RawAnswer:
    head, _, body = received.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return RawAnswer(int(status.split()[1]), headers, body)


def answer_to(client: socket.socket) -> RawAnswer:
    """Return the only response that the service sends before it closes the connection."""
    return answer_in(read_to_end(client))


def memory_mb(service: Served) -> float:
    """Return the resident memory of the process, in MB."""
    pages = int(Path(f"/proc/{service.process.pid}/statm").read_text().split()[1])
    return pages * 4096 / 2**20
