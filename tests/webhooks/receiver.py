"""A receiver of webhooks, as one would write it from the documentation."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Lock
from time import sleep
from typing import Any

from standardwebhooks import Webhook

from tests.outbound.sinks import sink

Json = dict[str, Any]


class Receiver:
    """Stores the messages of all requests.

    statuses: statuses of the next responses, instead of 200. requests: headers and messages of each
    request. bodies: text of each request. delay_s: seconds before each response.
    """

    def __init__(self) -> None:
        self.statuses, self.requests = list[int](), list[tuple[dict[str, str], list[Json]]]()
        self.delay_s, self.bodies = 0.0, list[str]()
        self._lock, self.url = Lock(), ""

    def respond(self, connection: socket.socket, request: bytes) -> None:
        head, _, body = request.decode().partition("\r\n\r\n")
        lines = [line.partition(": ") for line in head.split("\r\n")[1:]]
        headers = {name.lower(): value for name, _, value in lines}
        with self._lock:
            status = self.statuses.pop(0) if self.statuses else 200
            self.bodies.append(body)
            self.requests.append((headers, json.loads(body) if status == 200 else []))
        sleep(self.delay_s)
        connection.sendall(f"HTTP/1.1 {status} Said\r\nContent-Length: 2\r\n\r\nok".encode())

    @property
    def messages(self) -> list[Json]:
        """The messages of accepted requests, in their order."""
        with self._lock:
            return [message for _, messages in self.requests for message in messages]

    def verify(self, secret: str) -> None:
        """Check the signature of the last request, whatever the time is."""
        headers = self.requests[-1][0]
        at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
        expected = Webhook(secret).sign(headers["webhook-id"], at, self.bodies[-1])
        assert expected in headers["webhook-signature"].split(" ")


@contextmanager
def receiver() -> Iterator[Receiver]:
    own = Receiver()
    with sink(own.respond) as listening:
        own.url = f"http://127.0.0.1:{listening.port}/hook"
        yield own
