"""A subclass of uvicorn's request cycle that sends simple responses in one write."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    RequestResponseCycle,
)

Headers = Iterable[tuple[bytes, bytes]]

_LENGTH = b"content-length"
_CONNECTION_HEADERS = (b"connection", b"transfer-encoding")
_MAX_CACHED_NAMES = 1000


class RequestCycle(RequestResponseCycle):
    """Sends simple responses in one write.

    A simple response has a length, and its connection stays open. Checking each header and writing
    twice costs uvicorn more than reading the request.
    """

    _head = b""

    async def send(self, message: Any) -> None:
        if self.disconnected:
            return
        if not self.response_started:
            if head := self._plain_head(message["status"], message["headers"]):
                self._head, self.response_started = head, True
                self.waiting_for_100_continue = False
                return
        elif self._head:
            head, self._head = self._head, b""
            body = message.get("body", b"")
            is_whole = not message.get("more_body", False)
            if is_whole and len(body) == self.expected_content_length:
                self.transport.write(head + body)
                self.response_complete = True
                self.message_event.set()
                self.on_response()
                return
            self.transport.write(head)
        await super().send(message)

    def _plain_head(self, status: int, headers: Headers) -> bytes:
        """Return the head of a simple response; empty for any other response, which uvicorn
        writes.
        """
        if self.flow.write_paused or not self.keep_alive or self.scope["method"] == "HEAD":
            return b""
        length = None
        parts, values = [STATUS_LINE[status]], []
        for name, value in (*self.default_headers, *headers):
            if not _is_plain_name(name):
                return b""
            if name == _LENGTH:
                length = int(value)
            parts += (name, b": ", value, b"\r\n")
            values.append(value)
        if length is None or HEADER_VALUE_RE.search(b" ".join(values)):
            return b""
        self.expected_content_length, self.chunked_encoding = length, False
        parts.append(b"\r\n")
        return b"".join(parts)


@lru_cache(maxsize=_MAX_CACHED_NAMES)
def _is_plain_name(name: bytes) -> bool:
    return name.islower() and name not in _CONNECTION_HEADERS and HEADER_RE.search(name) is None
