"""A host for clients. It forwards to the service, and fails like a service under stress.

The first posts are rejected with 429, lost before they arrive, or stored without a response, as if
the service had been killed before or after the commit.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

import httpx

from tests.serving import http_client

OVERLOADED, LOST, UNANSWERED = "overloaded", "lost", "unanswered"
FAULTS = (OVERLOADED, UNANSWERED, LOST)

_NOT_FORWARDED = {"host", "connection", "content-length", "transfer-encoding", "accept-encoding"}
_NOT_RETURNED = {"content-length", "content-encoding", "connection", "date", "server"}
"""Response headers that are not passed on, because httpx has decoded the body."""


class FaultyHost:
    """A proxy that fails some posts.

    url: URL for the client. statuses: result of each post. failed: total number of posts that fail.
    """

    def __init__(self, service_url: Callable[[], str], faults: Sequence[str] = FAULTS) -> None:
        """service_url: returns the current URL, which changes when the service restarts."""
        self.statuses = list[int | str]()
        self._faults, self._lock = list(faults), Lock()
        self.failed = len(faults)
        self._service_url, self._client = service_url, http_client("")
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._client.close()

    def fail(self, *faults: str) -> None:
        """Fail the next posts with these faults."""
        with self._lock:
            self._faults += faults
            self.failed += len(faults)

    def succeed(self) -> None:
        """Stop failing posts."""
        with self._lock:
            self._faults.clear()

    def fault(self) -> str | None:
        """Return the fault for the next post, if any."""
        with self._lock:
            fault = self._faults.pop(0) if self._faults else None
            if fault is not None:
                self.statuses.append(fault)
            return fault

    def is_past_its_faults(self) -> bool:
        return len(self.statuses) > len(FAULTS)

    def forward(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> httpx.Response:
        return self._client.request(
            method, self._service_url() + path, headers=headers, content=body
        )

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        host = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                fault = host.fault() if self.command == "POST" else None
                if fault == LOST:
                    self.close_connection = True
                    return
                if fault == OVERLOADED:
                    self.answer(429, {"Retry-After": "1", **_ANY_ORIGIN}, _PROBLEM)
                    return
                sent = {
                    name: value
                    for name, value in self.headers.items()
                    if name.lower() not in _NOT_FORWARDED
                } | {"Host": self.headers["host"]}
                try:
                    answer = host.forward(self.command, self.path, sent, body)
                except httpx.TransportError:  # the service was killed
                    host.statuses.append(LOST)
                    self.close_connection = True
                    return
                if fault == UNANSWERED:
                    self.close_connection = True
                    return
                if self.command == "POST":
                    host.statuses.append(answer.status_code)
                self.answer(answer.status_code, dict(answer.headers), answer.content)

            do_GET = do_HEAD = do_POST = do_OPTIONS = do  # noqa: N815

            def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
                with suppress(OSError):
                    self.send_response(status)
                    for name, value in headers.items():
                        if name.lower() not in _NOT_RETURNED:
                            self.send_header(name, value)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


_PROBLEM = b'{"code": "rate_limited", "message": "Too many."}'
_ANY_ORIGIN = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "Retry-After",
    "Content-Type": "application/json",
}
