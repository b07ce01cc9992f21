"""A TCP proxy that can stop forwarding: to its clients the server behind it hangs."""

import socket
from contextlib import suppress
from threading import Event, Thread


class FreezingProxy:
    """Forwards connections of 127.0.0.1 to a Unix socket. Frozen, it only accepts."""

    def __init__(self, unix_socket: str) -> None:
        self._target = unix_socket
        self._flowing = Event()
        self._flowing.set()
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
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target)
                self._sockets += [client, server]
                for source, sink in ((client, server), (server, client)):
                    Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._flowing.wait()
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
