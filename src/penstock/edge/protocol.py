"""HTTP/1.1 on one connection, with limits on bytes and time.

uvicorn's protocol has neither limit: a header may grow until memory runs out, and an idle client
keeps its connection forever. A connection has these states, each with its own limits:

    idle -> head -> body -> answering -> idle

If a body is still arriving after its response, for example because it is too large, it is discarded
before the connection is idle again.
"""

import asyncio
from collections import deque
from enum import Enum, auto
from math import inf
from typing import Any, NamedTuple
from urllib.parse import unquote

import httptools
from pydantic_core import to_json
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from penstock.base.request_ids import new_request_id
from penstock.edge.connections import REFUSALS, Admission, Connections
from penstock.edge.cycle import RequestCycle
from penstock.http.cors import ANY_ORIGIN

_PIECE_BYTES = 4 * 1024
_MAX_HEADERS = 100
_MAX_PATH_BYTES = 4 * 1024
"""Maximum length of an encoded path, in bytes. IDs have at most 200 bytes; decoding a path of 64
KiB takes 4 ms.
"""
_MAX_FRAME_BYTES = 8 * 1024
"""Maximum framing overhead beyond body size, such as chunk sizes, in bytes."""
_MAX_PIPELINED = 8
_BODY_BYTES_PER_S = 4096
"""Minimum transfer rate in bytes per second. Each 4 KiB extends the deadline of a body or a
response by a second.
"""
_WRITE_S = 30.0
"""Time that every client gets to read a response, in addition to the time for its bytes, in
seconds.
"""
_LINGER_S = 2.0
_RETRY_AFTER_S = 1


class _State(Enum):
    IDLE = auto()
    HEAD = auto()
    BODY = auto()
    DISCARDING = auto()  # discarding a body after its response
    ANSWERING = auto()
    REFUSED = auto()


_ARRIVING = (_State.HEAD, _State.BODY)


class _NoTrailers(list[tuple[bytes, bytes]]):
    """A list that stays empty."""

    def append(self, _: tuple[bytes, bytes]) -> None:
        pass


_NO_TRAILERS = _NoTrailers()


class Refusal(NamedTuple):
    """A problem document that explains why a connection is closed. reason: label in the metrics."""

    reason: str
    status: int
    code: str
    title: str
    detail: str


_NOT_HTTP = Refusal(
    "malformed",
    400,
    code="malformed_request",
    title="Malformed request",
    detail="This is not an HTTP/1.1 request.",
)
_UPGRADE_WITH_BODY = _NOT_HTTP._replace(
    reason="upgrade", detail="A request with a body cannot ask for an upgrade. Omit `Upgrade`."
)
_TINY_CHUNKS = _NOT_HTTP._replace(
    reason="tiny_chunks", detail="The body arrives in chunks of a few bytes. Send larger ones."
)
_PATH_LONG = Refusal(
    "path_bytes",
    414,
    code="path_too_long",
    title="Path too long",
    detail=f"The path of the URL is longer than {_MAX_PATH_BYTES:,} bytes.",
)
_HEAD_LATE = Refusal(
    "head_timeout",
    408,
    code="request_timeout",
    title="Request timeout",
    detail="The headers took too long to arrive.",
)
_BODY_LATE = _HEAD_LATE._replace(reason="body_timeout", detail="The body took too long to arrive.")
_FULL = Refusal(
    "connections",
    503,
    code="too_many_connections",
    title="Service unavailable",
    detail="Too many connections are open. Reuse connections, and try again in a moment.",
)
_ADDRESS_FULL = _FULL._replace(
    reason="address_connections",
    detail="Too many connections from this address are open. "
    "Reuse connections, and try again in a moment.",
)


class EdgeProtocol(HttpToolsProtocol):
    """A connection. If a request exceeds a limit, sends the reason and closes the connection."""

    cycle: RequestCycle
    pipeline: deque[tuple[RequestCycle, Any]]  # type: ignore[assignment]

    def __init__(self, connections_of_node: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._node = connections_of_node
        self._address = ""
        self._state = _State.IDLE
        self._deadline_s = inf
        # Byte counts of the current request: head bytes, body bytes, framing bytes.
        self._head_bytes = self._body_bytes = self._frame_bytes = 0
        self._refusal: Refusal | None = None  # set before a callback of the parser raises

    # Methods that the transport calls.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._await_request()
        match self._node.admit(self, self._address):
            case Admission.FULL:
                self._refuse(_FULL)
            case Admission.ADDRESS_FULL:
                self._refuse(_ADDRESS_FULL)

    def connection_lost(self, exc: Exception | None) -> None:
        self._node.remove(self, self._address)
        super().connection_lost(exc)
        # Otherwise, the connection and the cycle would keep each other in memory.
        if self.cycle is not None:
            self.cycle.on_response = _do_nothing

    def data_received(self, data: bytes) -> None:
        if len(data) <= _PIECE_BYTES:
            self._parse(data)
            return
        for start in range(0, len(data), _PIECE_BYTES):
            self._parse(data[start : start + _PIECE_BYTES])

    def _parse(self, data: bytes) -> None:
        """Parse input. data: a small piece, so that exceeded limits are noticed early."""
        if self._state is _State.REFUSED:
            return
        # In any other state, the bytes belong to the body of an earlier request.
        body_bytes = self._body_bytes if self._state is _State.BODY else 0
        if self._state is _State.IDLE:
            data = _rename_upgrade(data)
        try:
            self.parser.feed_data(data)
            if self._state in _ARRIVING:
                self._count(len(data), max(0, self._body_bytes - body_bytes))
        except httptools.HttpParserUpgrade:
            pass  # Upgrades are not supported, so answer this as a normal request.
        except (httptools.HttpParserError, _Refused):
            self._refuse(self._refusal or _NOT_HTTP)

    def _count(self, size: int, body_size: int) -> None:
        """Count a piece of input. size: number of bytes. body_size: number of these bytes that
        belong to the body.
        """
        if not body_size:
            # The bytes are part of the head, of trailers or of chunk framing. The parser buffers a
            # header until its end, so only the bytes passed to it can be counted.
            self._head_bytes += size
            self._check_head(self._head_bytes)
        self._frame_bytes += size - body_size
        if self._body_bytes and self._frame_bytes > _MAX_FRAME_BYTES + self._body_bytes:
            self._refusal = _TINY_CHUNKS
            raise _Refused

    def pause_writing(self) -> None:
        super().pause_writing()
        self._deadline_s = self._time_to_read()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._state is _State.IDLE:
            self._await_request()
        elif self._state is _State.ANSWERING:
            self._deadline_s = inf

    # Methods that the parser calls. It wraps their exceptions in its own error.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._state = _State.HEAD
        self._head_bytes = self._body_bytes = self._frame_bytes = 0
        self._deadline_s = self.loop.time() + self._node.timeouts.head_s

    def on_headers_complete(self) -> None:
        # All headers have arrived. If the head came in one piece, only the number of headers still
        # needs a check.
        if self._head_bytes or len(self.headers) > _MAX_HEADERS:
            sizes = (len(name) + len(value) for name, value in self.headers)
            self._check_head(sum(sizes, len(self.url)))
        url = httptools.parse_url(self.url)
        if len(url.path) > _MAX_PATH_BYTES:
            self._refusal = _PATH_LONG
            raise _Refused
        if len(self.pipeline) >= _MAX_PIPELINED:
            raise _Refused
        if self.parser.should_upgrade() and any(name in _BODY_HEADERS for name, _ in self.headers):
            self._refusal = _UPGRADE_WITH_BODY
            raise _Refused
        self._state, self._frame_bytes = _State.BODY, 0
        self._deadline_s = self.loop.time() + self._node.timeouts.body_s
        self._begin_request(url)
        self.headers = _NO_TRAILERS  # no route uses trailers

    def _begin_request(self, url: httptools.parser.url_parser.URL) -> None:
        """Like uvicorn, but without connection upgrades and uvicorn's own limits."""
        version = self.parser.get_http_version()
        if version != "1.1":
            self.scope["http_version"] = version
        self.scope["method"] = self.parser.get_method().decode("ascii")
        path = url.path.decode("ascii")
        self.scope["path"] = unquote(path) if "%" in path else path
        self.scope["raw_path"] = url.path
        self.scope["query_string"] = url.query or b""
        before = self.cycle
        self.cycle = RequestCycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:  # the request is pipelined
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        cycle = self.cycle
        if cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        cycle = self.cycle
        if cycle.response_complete:
            self._await_request()
            return
        self._state, self._deadline_s = _State.ANSWERING, inf
        cycle.more_body = False
        cycle.message_event.set()

    # Methods that the request's cycle calls.

    def on_response_complete(self) -> None:
        """Like uvicorn's method, with a deadline instead of a timer."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._state is _State.ANSWERING:
            self._await_request()
        elif self._state is _State.BODY:
            self._state = _State.DISCARDING
            self._deadline_s = self.loop.time() + self._node.timeouts.body_s

    # Methods that the sweep calls.

    def check_deadline(self, now_s: float) -> None:
        if self.transport.is_closing() and self._deadline_s == inf:
            self._deadline_s = self._time_to_read()
        late_s = now_s - self._deadline_s
        if late_s < 0:
            return
        if self.transport.is_closing():
            self.transport.abort()
            return
        match self._state:
            case _State.HEAD:
                self._refuse(_HEAD_LATE)
            case _State.BODY if self.flow.read_paused:  # the server is the slow side
                self._deadline_s = now_s + self._node.timeouts.body_s
            case _State.BODY if late_s >= self._body_bytes / _BODY_BYTES_PER_S:
                self._refuse(_BODY_LATE)
            case _State.BODY:
                pass
            case _State.IDLE | _State.DISCARDING:
                REFUSALS.labels("idle").inc()
                self._deadline_s = inf
                self.transport.close()
            case _State.ANSWERING | _State.REFUSED:  # the client is not reading
                self.transport.abort()

    def _await_request(self) -> None:
        """Become idle, or wait until the client has read the response."""
        self._state = _State.IDLE
        self._deadline_s = (
            self._time_to_read()
            if self.flow.write_paused
            else self.loop.time() + self._node.timeouts.idle_s
        )

    def _time_to_read(self) -> float:
        """Deadline for the client to read the buffered bytes."""
        pending = self.transport.get_write_buffer_size()
        return self.loop.time() + _WRITE_S + pending / _BODY_BYTES_PER_S

    def _check_head(self, size: int) -> None:
        if size > self._node.max_head_bytes or len(self.headers) > _MAX_HEADERS:
            self._refusal = Refusal(
                "head_bytes",
                431,
                code="headers_too_large",
                title="Request header fields too large",
                detail=f"The headers are larger than {self._node.max_head_bytes:,} bytes, "
                f"or more than {_MAX_HEADERS}.",
            )
            raise _Refused

    def _refuse(self, refusal: Refusal) -> None:
        """Send an error unless another response has started, and close the connection."""
        REFUSALS.labels(refusal.reason).inc()
        cycle = self.cycle
        in_progress = cycle is not None and not cycle.response_complete
        if self._state is _State.BODY:
            may_answer = in_progress and not cycle.response_started and not self.pipeline
        else:
            may_answer = not in_progress
        if in_progress:  # drop the rest of the application's response
            cycle.disconnected = True
            cycle.message_event.set()
        self._state = _State.REFUSED
        self._deadline_s = self.loop.time() + _LINGER_S
        if not may_answer:
            self.transport.close()
            return
        self.transport.write(_answer(refusal))
        # Closing with unread bytes resets the connection, so the client might miss the response.
        if self._node.linger(self) and self.transport.can_write_eof():
            self.flow.resume_reading()
            self.transport.write_eof()
        else:
            self.transport.close()


def _do_nothing() -> None:
    pass


_BODY_HEADERS = (b"content-length", b"transfer-encoding")
_UPGRADE = b"\nupgrade:"


def _rename_upgrade(data: bytes) -> bytes:
    """Rename the header `Upgrade` if the data start with a complete head.

    Upgrades are not supported, and the parser would skip the body. If a head arrives in pieces, a
    request with a body is rejected instead.
    """
    head = data[: data.find(b"\r\n\r\n") + 1]
    at = head.lower().find(_UPGRADE)
    return data if at < 0 else data[:at] + b"\nignored:" + data[at + len(_UPGRADE) :]


class _Refused(Exception):
    """Raised to stop parsing the client's input."""


def _answer(refusal: Refusal) -> bytes:
    request_id = new_request_id()
    body = to_json(
        {
            "type": f"/api/docs/errors#{refusal.code}",
            "title": refusal.title,
            "status": refusal.status,
            "code": refusal.code,
            "detail": refusal.detail,
            "requestId": request_id,
        }
    )
    headers = {
        "content-type": "application/problem+json",
        "content-length": str(len(body)),
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "x-request-id": request_id,
        "connection": "close",
        # Always add these headers, because the route may still be unknown, and the text is the same
        # for all routes.
        **{name.decode(): value.decode() for name, value in ANY_ORIGIN},
    }
    if refusal.status == 503:
        headers["retry-after"] = str(_RETRY_AFTER_S)
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return STATUS_LINE[refusal.status] + head.encode() + b"\r\n" + body
