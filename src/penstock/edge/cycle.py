"""One request and its answer, as uvicorn has them; a plain answer is written in one piece."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import (
    HEADER_VALUE_RE,
    STATUS_LINE,
    RequestResponseCycle,
)

_PLAIN_NAMES = frozenset(
    (
        b"cache-control", b"content-length", b"content-type", b"date", b"location", b"ratelimit",
        b"ratelimit-policy", b"x-content-type-options", b"x-request-id",
    )
)  # fmt: skip


class RequestCycle(RequestResponseCycle):
    """Keeps the head of a plain answer until the body is there.

    Plain: headers with usual names, among them the length, on a connection that stays open.
    Checking each header and writing twice costs uvicorn more than reading the request.
    """

    _head = b""

    async def send(self, message: Any) -> None:
        if self.disconnected:
            return
        if not self.response_started:
            if head := self._plain_head(message):
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

    def _plain_head(self, message: Any) -> bytes:
        """The head of a plain answer; empty for any other, which uvicorn writes."""
        if self.flow.write_paused or not self.keep_alive or self.scope["method"] == "HEAD":
            return b""
        length = None
        parts = [STATUS_LINE[message["status"]]]
        for name, value in (*self.default_headers, *message["headers"]):
            if name not in _PLAIN_NAMES or HEADER_VALUE_RE.search(value):
                return b""
            if name == b"content-length":
                length = int(value)
            parts += (name, b": ", value, b"\r\n")
        if length is None:
            return b""
        self.expected_content_length, self.chunked_encoding = length, False
        parts.append(b"\r\n")
        return b"".join(parts)
