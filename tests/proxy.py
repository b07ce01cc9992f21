"""A TCP proxy that can cut connections, or stop forwarding so that the server behind it seems to
hang.
"""

import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread


class FaultyProxy:
    """Forwards connections to a server. While frozen, it accepts connections but forwards
    nothing.
    """

    def __init__(self, target: str | int) -> None:
        """target: path of a Unix socket, or a port on 127.0.0.1."""
        self._target = target
        self._flowing = Event()
        self._flowing.set()
        self._cutting = Lock()
        self._answer_bytes: int | None = None
        self._refused: bytes | None = None
        self._interrupted: tuple[bytes, Callable[[], object]] | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def freeze(self) -> None:
        self._flowing.clear()

    def thaw(self) -> None:
        self._flowing.set()

    def cut_answers(self, after_bytes: int | None) -> None:
        """Close connections after this many more response bytes. None forwards everything."""
        with self._cutting:
            self._answer_bytes = after_bytes

    def refuse_requests(self, text: str | None) -> None:
        """Close connections whose requests contain the text, without forwarding the requests.

        None forwards everything.
        """
        self._refused = text.encode() if text else None

    def run_before(self, text: str, action: Callable[[], object]) -> None:
        """Run an action once, before the next request that contains the text is forwarded."""
        self._interrupted = (text.encode(), action)

    def close(self) -> None:
        self._flowing.set()
        for open_socket in (self._listener, *self._sockets):
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
            open_socket.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = self._connect()
                except OSError:
                    client.close()
                    continue
                self._sockets += [client, server]
                for source, sink in ((client, server), (server, client)):
                    Thread(
                        target=self._forward, args=(source, sink, source is server), daemon=True
                    ).start()

    def _connect(self) -> socket.socket:
        if isinstance(self._target, int):
            return socket.create_connection(("127.0.0.1", self._target))
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._target)
        return server

    def _forward(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._flowing.wait()
                if not is_answer and self._refused is not None and self._refused in data:
                    break
                if not is_answer and self._interrupted and self._interrupted[0] in data:
                    (_, action), self._interrupted = self._interrupted, None
                    action()
                allowed = self._allowed(data) if is_answer else data
                sink.sendall(allowed)
                if len(allowed) < len(data):
                    break
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _allowed(self, data: bytes) -> bytes:
        with self._cutting:
            if self._answer_bytes is None:
                return data
            allowed = data[: self._answer_bytes]
            self._answer_bytes -= len(allowed)
            return allowed
