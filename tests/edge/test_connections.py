"""Budgets of a connection: bytes of headers, time to send and to read, how many at once."""

import resource
import time

import httpx
import pytest

from penstock.cli.descriptors import fit_connections
from penstock.settings import Settings
from tests.edge.wire import answer_in, answer_to, connect, memory_mb, read_to_end, send
from tests.serving import Served
from tests.waiting import PATIENCE_S, eventually

MB = 2**20
TAKEN_MB = 25
"""The most memory that a request of 40 MB may take, including the engine's threads."""


@pytest.fixture(scope="module")
def service(starts_service, tmp_path_factory):
    """Loopback is no trusted proxy here: its connections count."""
    with Served(
        tmp_path_factory.mktemp("edge") / "data",
        PENSTOCK_TRUSTED_PROXIES="10.1.1.1",
        PENSTOCK_ADDRESS_CONNECTIONS="20",
        PENSTOCK_IDLE_TIMEOUT_S="1",
        limits={"header_timeout_s": 1, "body_timeout_s": 1},
    ) as service:
        service.first_account()
        yield service


@pytest.fixture(autouse=True)
def still_serves(service):
    yield
    assert httpx.get(f"{service.url}/health/live", verify=False).status_code == 200
    assert "request_failed" not in service.output()


UPGRADE = (
    b"POST /api/identify HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings, close\r\n"
    b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nContent-Type: application/json\r\n"
    b"Content-Length: 2\r\n\r\n"
)


@pytest.mark.parametrize("pieces", [(UPGRADE + b"{}",), (UPGRADE, b"{}")])
def test_an_offer_to_upgrade_is_ignored_and_the_body_is_read(service, pieces):
    """As `curl --http2` sends it."""
    with connect(service) as client:
        for piece in pieces:
            send(client, piece)
            time.sleep(0.05)
        answer = answer_to(client)
    assert (answer.status, answer.json()["code"]) == (422, "invalid")
    assert {error["code"] for error in answer.json()["errors"]} == {"required"}


def test_an_offer_to_upgrade_whose_head_comes_in_pieces_is_refused_with_its_body(service):
    with connect(service) as client:
        send(client, UPGRADE[:60])
        time.sleep(0.05)
        send(client, UPGRADE[60:] + b"{}GET / HTTP/1.1\r\n\r\n")
        received = read_to_end(client)
    assert received.count(b"HTTP/1.1 ") == 1
    assert (answer_in(received).status, answer_in(received).json()["code"]) == (
        400,
        "malformed_request",
    )


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b"GET / HTTP/1.1\r\nX-Long: ", *[b"a" * MB] * 40], id="one header"),
        pytest.param(
            [b"GET / HTTP/1.1\r\n", *[b"X-Some: " + b"a" * 8000 + b"\r\n"] * 5000],
            id="many headers",
        ),
        pytest.param([b"GET /", *[b"a" * MB] * 40], id="address"),
        pytest.param([b"GET / HTTP/1.1\r\n", *[b"a:\r\n" * (MB // 4)] * 40], id="empty headers"),
    ],
)
def test_headers_over_64_kb_are_431_and_take_no_memory(service, pieces):
    before_mb = memory_mb(service)
    with connect(service) as client:
        send(client, *pieces)
        assert memory_mb(service) < before_mb + TAKEN_MB
        answer = answer_to(client)
    assert (answer.status, answer.json()["code"]) == (431, "headers_too_large")
    assert "65,536 bytes" in answer.json()["detail"]
    assert answer.headers["x-request-id"] == answer.json()["requestId"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("size", [50, 2000])
def test_more_than_100_headers_are_431(service, size):
    """Whether the head arrives in one piece or in several."""
    for count, status in ((98, 200), (101, 431)):
        with connect(service) as client:
            head = b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            send(client, head, b"X: %s\r\n" % (b"a" * (size // 100)) * count, b"\r\n")
            answer = answer_to(client)
        assert answer.status == status
    assert answer.json()["code"] == "headers_too_large"


@pytest.mark.parametrize("unit", [b"a", b"%41", b"/a"])
@pytest.mark.parametrize("before", [b"/l/", b"/api/visitors/", b"/"])
def test_a_path_over_4_kib_is_414_and_is_not_decoded(service, before, unit):
    for size, statuses in ((4000, {401, 404}), (5000, {414}), (60_000, {414})):
        with connect(service) as client:
            path = before + unit * (size // len(unit))
            send(client, b"GET %s HTTP/1.1\r\nConnection: close\r\n\r\n" % path)
            answer = answer_to(client)
        assert answer.status in statuses
    assert answer.json()["code"] == "path_too_long"
    assert "4,096 bytes" in answer.json()["detail"]


def test_a_long_query_has_the_limit_of_headers(service):
    with connect(service) as client:
        send(client, b"GET /health/live?x=%s HTTP/1.1\r\nConnection: close\r\n" % (b"a" * 60_000))
        send(client, b"\r\n")
        assert answer_to(client).status == 200


def test_headers_just_below_the_limit_are_accepted(service):
    with connect(service) as client:
        send(client, b"GET /health/live HTTP/1.1\r\nConnection: close\r\nX: " + b"a" * 65_000)
        send(client, b"\r\n\r\n")
        assert answer_to(client).status == 200


def test_the_body_of_another_request_of_the_connection_does_not_count(service):
    sizes = (60_000, 10_000, 60_000)
    with httpx.Client(base_url=service.url, verify=False) as client:
        bodies = [{"websiteId": "none", "name": "a" * size} for size in sizes]
        assert [client.post("/api/track", json=body).status_code for body in bodies] == [422] * 3


def test_large_headers_do_not_count_for_a_small_body(service):
    head = b"POST /api/track HTTP/1.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
    with connect(service) as client:
        send(client, head + b"Content-Length: 4\r\nX: " + b"a" * 60_000 + b"\r\n\r\n{")
        time.sleep(0.1)
        for _ in range(3):
            send(client, b" ")
        assert answer_to(client).json()["code"] == "not_json"


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b"0\r\nX-Trailer: ", *[b"a" * MB] * 40], id="one trailer"),
        pytest.param([b"0\r\n", *[b"X-Some: " + b"a" * 8000 + b"\r\n"] * 5000], id="trailers"),
        pytest.param([b"1;x=", *[b"a" * MB] * 40], id="chunk extension"),
    ],
)
def test_what_frames_a_body_has_the_same_limit(service, pieces):
    before_mb = memory_mb(service)
    head = b"POST /api/track HTTP/1.1\r\nContent-Type: application/json\r\n"
    with connect(service) as client:
        send(client, head, b"Transfer-Encoding: chunked\r\n\r\n", b"2\r\n{}\r\n", *pieces)
        read_to_end(client)
    assert memory_mb(service) < before_mb + TAKEN_MB


@pytest.mark.parametrize(("size", "status"), [(1, 400), (2, 400), (64, 422)])
def test_a_body_in_tiny_chunks_is_refused(service, size, status):
    head = b"POST /api/track HTTP/1.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
    body = b'{"websiteId": "none", "name": "%s"}' % (b"a" * 60_000)
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    frames = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    with connect(service) as client:
        send(client, head, b"Transfer-Encoding: chunked\r\n\r\n", frames, b"0\r\n\r\n")
        answer = answer_to(client)
    assert answer.status == status
    if status == 400:
        assert answer.json()["code"] == "malformed_request"
        assert "chunks" in answer.json()["detail"]


def test_pipelined_requests_that_wait_are_bounded(service):
    before_mb = memory_mb(service)
    with connect(service) as client:
        send(client, b"GET /health/ready HTTP/1.1\r\n\r\n" * 50_000)
        read_to_end(client)
    assert memory_mb(service) < before_mb + TAKEN_MB


def test_a_few_pipelined_requests_are_answered_in_order(service):
    requests = b"".join(
        b"GET /%s HTTP/1.1\r\n\r\n" % path for path in (b"health/live", b"api/nothing")
    )
    with connect(service) as client:
        send(client, requests + b"GET /health/live HTTP/1.1\r\nConnection: close\r\n\r\n")
        received = read_to_end(client)
    statuses = [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [200, 404, 200]


def test_headers_that_never_end_are_408(service):
    with connect(service) as client:
        began_s = time.monotonic()
        send(client, b"GET / HTTP/1.1\r\n")
        for _ in range(3):  # an occasional byte does not help
            time.sleep(0.3)
            send(client, b"X")
        answer = answer_to(client)
        assert time.monotonic() - began_s < PATIENCE_S
    assert (answer.status, answer.json()["code"]) == (408, "request_timeout")


def test_a_body_that_never_ends_is_408(service):
    head = b"POST /api/track HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n"
    with connect(service) as client:
        send(client, head + b"\r\n{")
        answer = answer_to(client)
    assert (answer.status, answer.json()["code"]) == (408, "request_timeout")


def test_a_body_that_arrives_slowly_may_take_its_time(service):
    """Longer than the deadline of a second, but more than 4 KiB in each."""
    body = b'{"websiteId": "none", "visitorId": "v", "name": "%s"}' % (b"a" * 60_000)
    head = (
        b"POST /api/track HTTP/1.1\r\nContent-Type: application/json\r\n"
        b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    )
    with connect(service) as client:
        send(client, head)
        for start in range(0, len(body), 15_000):
            time.sleep(0.4)
            send(client, body[start : start + 15_000])
        assert answer_to(client).status == 422


def test_a_body_after_its_refusal_has_a_deadline(service):
    head = b"POST /api/track HTTP/1.1\r\nContent-Type: application/json\r\n"
    with connect(service) as client:
        send(client, head + b"Content-Length: 99999999\r\n\r\n{")
        received = read_to_end(client)
    assert answer_in(received).status == 413
    assert received.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("request_", [b"", b"\r\n", b"GET /health/live HTTP/1.1\r\n\r\n"])
def test_an_idle_connection_is_closed(service, request_):
    with connect(service) as client:
        send(client, request_)
        assert read_to_end(client).count(b"HTTP/1.1") == (1 if request_.strip() else 0)


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02\x00", b"HELLO\r\n\r\n", b"GET a b c\r\n\r\n"]
)
def test_what_is_not_http_is_400(service, garbage):
    with connect(service) as client:
        send(client, garbage)
        answer = answer_to(client)
    assert (answer.status, answer.json()["code"]) == (400, "malformed_request")


def test_connections_from_one_address_are_bounded(service):
    first = [connect(service) for _ in range(20)]
    try:
        for client in first:  # a head that is not finished holds the connection
            send(client, b"GET / HTTP/1.1\r\n")
        with connect(service) as client:
            answer = answer_to(client)
    finally:
        for client in first:
            client.close()
    assert (answer.status, answer.json()["code"]) == (503, "too_many_connections")
    assert answer.headers["retry-after"] == "1"
    assert "from this address" in answer.json()["detail"]
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "retry-after" in answer.headers["access-control-expose-headers"]

    def served() -> bool:
        with connect(service) as client:
            send(client, b"GET /health/live HTTP/1.1\r\nConnection: close\r\n\r\n")
            return answer_to(client).status == 200

    eventually(served)


@pytest.mark.parametrize(
    ("files", "connections"),
    [(524_288, 4000), (resource.RLIM_INFINITY, 4000), (8096, 4000), (8000, 4000), (6000, 3000)],
)
def test_connections_leave_open_files_for_the_stores(monkeypatch, files, connections):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert fit_connections(Settings()).connections == connections


@pytest.mark.usefixtures("starts_service")
def test_connections_in_all_are_bounded_for_proxies_too(tmp_path):
    with Served(tmp_path / "data", PENSTOCK_CONNECTIONS="5") as service:
        first = [connect(service) for _ in range(5)]
        with connect(service) as client:
            answer = answer_to(client)
        for client in first:
            client.close()
    assert (answer.status, answer.json()["code"]) == (503, "too_many_connections")
    assert "from this address" not in answer.json()["detail"]
