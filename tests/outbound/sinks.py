"""Receivers of deliveries on the loopback interface, which answer as a test says."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread

LOOPBACK = "127.0.0.0/8,::1/128"
Respond = Callable[[socket.socket], None]


class Sink:
    """A receiver. requests: the heads of the requests that it got, with their bodies."""

    def __init__(self, respond: Respond, host: str, tls: ssl.SSLContext | None) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._respond, self.requests = respond, list[bytes]()
        self._listener = socket.create_server((host, 0), family=family)
        self._tls = tls
        self.port = int(self._listener.getsockname()[1])
        Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                Thread(target=self._handle, args=(connection,), daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        with suppress(OSError):
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with connection:
                self._read(connection)

    def _read(self, connection: socket.socket) -> None:
        request = b""
        while b"\r\n\r\n" not in request:
            request += connection.recv(65536)
        head, _, body = request.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(body) < length:
            body += connection.recv(65536)
        self.requests.append(head + b"\r\n\r\n" + body)
        self._respond(connection)

    def close(self) -> None:
        self._listener.close()


def says(response: bytes) -> Respond:
    return lambda connection: connection.sendall(response)


ok = says(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nthanks")


@contextmanager
def sink(
    respond: Respond = ok, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> Iterator[Sink]:
    receiver = Sink(respond, host, tls)
    try:
        yield receiver
    finally:
        receiver.close()
