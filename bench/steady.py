"""Sends single posts at a steady rate, no matter how long responses take.

Latency is measured from the time when a request is due, including the wait for a connection. So a
server that stalls is also charged for every request that could not be sent.
"""

import asyncio
import time
from collections import deque
from typing import NamedTuple

import uvloop

from bench.service import Account

CONNECTIONS = 256
_TICK_S = 0.001
_LAST_RESPONSES_S = 30
_BODY = (
    '{{"websiteId":"{website}","visitorId":"visitor-{visitor}","userId":"user-{visitor}",'
    '"event":"checkout_started","eventId":"{prefix}-{number}","country":"DE","properties":'
    '{{"attemptId":"attempt-{number}","n":{n},"plan":"pro","amount":4.5,"variant":"b"}}}}'
)


class Latencies(NamedTuple):
    """Latencies of a run. rate: responses per second. failed: number of missing responses or
    responses other than 202.
    """

    rate: float
    p50_ms: float
    p99_ms: float
    longest_ms: float
    failed: int


class _Connection(asyncio.Protocol):
    """One connection, with one request at a time."""

    transport: asyncio.Transport

    def __init__(self, sender: "_Sender") -> None:
        self._sender, self._received, self.due_s = sender, b"", 0.0

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end:
            return
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        if len(body) >= int(length):
            self._received = b""
            self._sender.responded(self, head[9:12] == b"202")


class _Sender:
    def __init__(self, host: str, account: Account, prefix: str) -> None:
        self._host, self._account, self._prefix = host, account, prefix
        self.idle, self.waiting = list[_Connection](), deque[tuple[float, bytes]]()
        self.latencies_s, self.failed = list[float](), 0

    def request(self, number: int) -> bytes:
        body = _BODY.format(
            website=self._account.website_id,
            visitor=number % 5000,
            prefix=self._prefix,
            number=number,
            n=number % 7,
        )
        return (
            f"POST /api/v1/events HTTP/1.1\r\nHost: {self._host}\r\n"
            f"Authorization: Bearer {self._account.key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        ).encode()

    def send(self, due_s: float, request: bytes) -> None:
        if self.idle:
            connection = self.idle.pop()
            connection.due_s = due_s
            connection.transport.write(request)
        else:
            self.waiting.append((due_s, request))

    def responded(self, connection: _Connection, is_accepted: bool) -> None:
        self.latencies_s.append(time.perf_counter() - connection.due_s)
        self.failed += not is_accepted
        self.idle.append(connection)
        if self.waiting:
            self.send(*self.waiting.popleft())


def post_steadily(
    url: str, account: Account, rate: float, seconds: float, prefix: str
) -> Latencies:
    """Post events at a given rate for some seconds. prefix: start of the events' IDs."""
    return uvloop.run(_post(url, account, rate, seconds, prefix))


async def _post(url: str, account: Account, rate: float, seconds: float, prefix: str) -> Latencies:
    host = url.partition("://")[2]
    address, _, port = host.partition(":")
    sender, loop = _Sender(host, account, prefix), asyncio.get_running_loop()
    for _ in range(CONNECTIONS):
        transport, connection = await loop.create_connection(
            lambda: _Connection(sender), address, int(port)
        )
        connection.transport = transport
        sender.idle.append(connection)
    start_s, number, requests = time.perf_counter(), 0, int(rate * seconds)
    while number < requests:
        now_s = time.perf_counter()
        while number < requests and start_s + number / rate <= now_s:
            sender.send(start_s + number / rate, sender.request(number))
            number += 1
        await asyncio.sleep(_TICK_S)
    until_s = time.perf_counter() + _LAST_RESPONSES_S
    while len(sender.latencies_s) < requests and time.perf_counter() < until_s:
        await asyncio.sleep(_TICK_S)
    took_s = time.perf_counter() - start_s
    for connection in sender.idle:
        connection.transport.close()
    latencies = sorted(sender.latencies_s)
    return Latencies(
        len(latencies) / took_s,
        latencies[len(latencies) // 2] * 1000,
        latencies[len(latencies) * 99 // 100] * 1000,
        latencies[-1] * 1000,
        sender.failed + requests - len(latencies),
    )
