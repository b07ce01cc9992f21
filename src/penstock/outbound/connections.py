"""Connections to addresses that were checked before, with one deadline for all they do."""

import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from threading import BoundedSemaphore, Thread
from time import monotonic
from typing import Any

import httpcore

from penstock.outbound.model import DeliveryFailed

Resolve = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a host. Raises `OSError` or `UnicodeError` if it has none."""

MAX_READ_BYTES = 64 * 1024
_LOOKUPS = BoundedSemaphore(64)
"""Lookups that run. They cannot be stopped, so a lookup may outlive its delivery."""


class Deadline:
    """A time limit. seconds: from now."""

    def __init__(self, seconds: float) -> None:
        self._until_s = monotonic() + seconds

    def left_s(self) -> float:
        """Return the seconds that are left. Raises `httpcore.TimeoutException` if none are."""
        left_s = self._until_s - monotonic()
        if left_s <= 0:
            raise httpcore.TimeoutException
        return left_s


def resolve(host: str, port: int) -> Sequence[str]:
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in entries))


def resolve_in_time(resolve: Resolve, host: str, port: int, deadline: Deadline) -> Sequence[str]:
    """Look up a host in a new thread, because a lookup has no time limit."""
    if not _LOOKUPS.acquire(blocking=False):
        raise DeliveryFailed("Too many names are being looked up.")
    lookup: Future[Sequence[str]] = Future()

    def look_up() -> None:
        try:
            lookup.set_result(resolve(host, port))
        except BaseException as error:
            lookup.set_exception(error)
        finally:
            _LOOKUPS.release()

    Thread(target=look_up, name="outbound lookup", daemon=True).start()
    try:
        addresses = lookup.result(deadline.left_s())
    except TimeoutError:
        raise httpcore.TimeoutException from None
    except (OSError, UnicodeError):
        addresses = []
    if not addresses:
        raise DeliveryFailed("The host of the URL has no address: its name was not found.")
    return addresses


class CheckedNetwork(httpcore.NetworkBackend):
    """Connects to one of these addresses, whatever host a request names."""

    def __init__(self, addresses: Sequence[str], deadline: Deadline) -> None:
        self._addresses, self._deadline = addresses, deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        for count_left, address in zip(
            range(len(self._addresses), 0, -1), self._addresses, strict=True
        ):
            with suppress(OSError):
                connected = socket.create_connection(
                    (address, port), self._deadline.left_s() / count_left
                )
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return _LimitedStream(connected, self._deadline)
        raise httpcore.ConnectError


class _LimitedStream(httpcore.NetworkStream):
    """A connection that ends at a deadline, or after it has read as much as is allowed."""

    def __init__(self, connected: socket.socket, deadline: Deadline) -> None:
        self._socket, self._deadline = connected, deadline
        self._left_bytes = MAX_READ_BYTES

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if not self._left_bytes:
            return b""  # as if the server had closed the connection
        with _as_http_errors(httpcore.ReadError):
            self._socket.settimeout(self._deadline.left_s())
            content = self._socket.recv(min(max_bytes, self._left_bytes))
        self._left_bytes -= len(content)
        return content

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        content = memoryview(buffer)
        with _as_http_errors(httpcore.WriteError):
            while content:
                self._socket.settimeout(self._deadline.left_s())
                content = content[self._socket.send(content) :]

    def close(self) -> None:
        self._socket.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        try:
            with _as_http_errors(httpcore.ConnectError):
                self._socket.settimeout(self._deadline.left_s())
                encrypted = ssl_context.wrap_socket(self._socket, server_hostname=server_hostname)
        except BaseException:
            self.close()
            raise
        return _LimitedStream(encrypted, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return None


@contextmanager
def _as_http_errors(kind: type[httpcore.NetworkError]) -> Iterator[None]:
    """Raise errors of a socket as errors of `httpcore`."""
    try:
        yield
    except TimeoutError as error:
        raise httpcore.TimeoutException from error
    except OSError as error:
        raise kind(str(error)) from error
