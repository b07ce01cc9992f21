"""Large bodies of all clients together have a limit, and small ones never wait for them."""

import gzip
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.edge.wire import answer_in, connect, send
from tests.serving import Served
from tests.waiting import eventually

BODY = 100_000
LIMIT = 4 * BODY


@pytest.fixture(scope="module")
def service(starts_service: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(
        tmp_path_factory.mktemp("bodies") / "data", PENSTOCK_BODIES_BYTES=str(LIMIT)
    ) as service:
        service.website_id = service.first_account()[1]  # type: ignore[attr-defined]
        yield service


def batch(service: Served, size: int) -> bytes:
    event = {
        "websiteId": service.website_id,  # type: ignore[attr-defined]
        "type": "event",
        "name": "opened",
        "visitorId": "v",
        "properties": {"text": "x" * 5_000},
    }
    return json.dumps({"events": [event] * (size // 5_000)}).encode()


def post(service: Served, body: bytes, address: str, **headers: str) -> Any:
    more = {"X-Forwarded-For": address, "Content-Type": "application/json", **headers}
    return service.client.post("/api/track", content=body, headers=more)


def head(address: str) -> bytes:
    return (
        f"POST /api/track HTTP/1.1\r\nX-Forwarded-For: {address}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {BODY}\r\n\r\n"
    ).encode()


def has_no_room(service: Served, address: str) -> bool:
    """Whether a large body is refused. Only announced: one that is sent takes room itself."""
    with connect(service) as client:
        client.settimeout(0.3)
        send(client, head(address))
        try:
            return answer_in(client.recv(65536)).status == 503
        except TimeoutError:
            return False


@contextmanager
def half_sent(service: Served, *addresses: str) -> Iterator[list[socket.socket]]:
    """Clients that sent all of a large body but its end. All of them are in memory."""
    clients = [connect(service) for _ in addresses]
    try:
        for client, address in zip(clients, addresses, strict=True):
            send(client, head(address), b" " * (BODY - 1))
        eventually(lambda: has_no_room(service, addresses[-1]))
        yield clients
    finally:
        for client in clients:
            client.close()


def refusal(service: Served, address: str) -> Any:
    """The problem that a large body meets; None when it is accepted."""
    answer = post(service, batch(service, BODY), address)
    return None if answer.status_code == 202 else answer


def test_a_body_beyond_the_memory_of_all_is_503_before_it_is_read(service: Served) -> None:
    with half_sent(service, "198.51.100.1", "198.51.100.2", "198.51.100.3", "198.51.100.4"):
        answer = refusal(service, "198.51.100.5")
        assert (answer.status_code, answer.json()["code"]) == (503, "overloaded")
        assert answer.headers["retry-after"] == "1"
        with connect(service) as client:  # sends no byte of its body
            send(client, head("198.51.100.6"))
            assert answer_in(client.recv(65536)).status == 503
        assert post(service, batch(service, 10_000), "198.51.100.5").status_code == 202
    assert eventually(lambda: refusal(service, "198.51.100.5") is None)


def test_one_address_uses_at_most_half(service: Served) -> None:
    with half_sent(service, "203.0.113.1", "203.0.113.1"):
        answer = refusal(service, "203.0.113.1")
        assert (answer.status_code, answer.json()["code"]) == (503, "overloaded")
        assert refusal(service, "203.0.113.2") is None


def test_a_decompressed_body_counts_as_well(service: Served) -> None:
    body = gzip.compress(batch(service, LIMIT))
    assert len(body) < 16 * 1024
    answer = post(service, body, "203.0.113.3", **{"Content-Encoding": "gzip"})
    assert (answer.status_code, answer.json()["code"]) == (503, "overloaded")
    smaller = gzip.compress(batch(service, BODY))
    answer = post(service, smaller, "203.0.113.3", **{"Content-Encoding": "gzip"})
    assert answer.status_code == 202


def test_what_was_answered_is_no_longer_counted(service: Served) -> None:
    for _ in range(10):
        answer = post(service, batch(service, LIMIT // 2), "203.0.113.4")
        assert answer.status_code == 202, answer.text
        assert post(service, b"{" + b" " * BODY, "203.0.113.4").status_code == 400
