"""Deliveries reach no address that the operator does not allow, and end in time."""

import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from time import monotonic, sleep, time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from standardwebhooks import Webhook

from penstock.base.errors import Invalid
from penstock.outbound.model import DeliveryFailed
from penstock.outbound.sender import Outbound, signed_headers
from tests.outbound.sinks import LOOPBACK, says, sink

PRIVATE = [
    "https://127.0.0.1/",
    "https://127.8.9.10:8443/",
    "https://localhost/",
    "https://api.localhost/",
    "https://0.0.0.0/",
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://192.168.1.1/",
    "https://100.64.0.1/",
    "https://100.100.100.200/",  # metadata of a cloud
    "https://169.254.169.254/latest/meta-data/",
    "https://168.63.129.16/machine/",  # a public address with secrets of a virtual machine
    "https://192.0.0.192/",
    "https://224.0.0.1/",
    "https://255.255.255.255/",
    "https://[::]/",
    "https://[::1]/",
    "https://[::127.0.0.1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[::ffff:0:127.0.0.1]/",
    "https://[64:ff9b::127.0.0.1]/",
    "https://[64:ff9b:1::1]/",
    "https://[2002:7f00:1::]/",
    "https://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
    "https://[fe80::1]/",
    "https://[fec0::1]/",
    "https://[fd00:ec2::254]/",
    "https://[ff02::1]/",
]
MALFORMED = [
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.1/",
    "https://0177.0.0.1/",
    "https://127.1/",
    "https://127.0.0.1./",
    "https://user@example.com/",
    "https://user:password@example.com/",
    "https://example.com@127.0.0.1/",
    "https://example.com\\@127.0.0.1/",
    "https://example.com/\r\nx-injected: 1",
    "https://example.com/\tpath",
    "https://example.com/ path",
    "https://\u24d4xample.com/",
    "https://example.com/#fragment",
    "https://example.com:0/",
    "https://example.com:99999/",
    "https://[::1",
    "https:///path",
    "https:example.com",
    "//example.com/",
    "http://example.com/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://127.0.0.1/",
    "https://exa_mple..com/",
    "https://example.com/" + "a" * 2000,
]


class Names:
    """A resolver whose answers a test sets. lookups: the names that were looked up."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers, self.lookups = list(answers), list[str]()

    def __call__(self, host: str, _: int) -> Sequence[str]:
        self.lookups.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def outbound() -> Outbound:
    return Outbound(LOOPBACK, resolve=Names(["127.0.0.1"]), total_s=1.0)


@pytest.mark.parametrize("url", [*PRIVATE, *MALFORMED])
def test_refuses_private_and_malformed_urls(url: str) -> None:
    outbound = Outbound("", resolve=Names(["127.0.0.1"]))
    with pytest.raises(Invalid) as refused:
        outbound.check(url, "url")
    assert [fault.field for fault in refused.value.faults] == ["url"]
    with pytest.raises(DeliveryFailed):  # a URL that was stored before it was refused
        outbound.post(url, b"{}", {})


@pytest.mark.parametrize("url", PRIVATE)
def test_refuses_names_that_lead_to_private_addresses(url: str) -> None:
    address = url.removeprefix("https://").partition("/")[0].strip("[]").removesuffix(":8443")
    if address.endswith("localhost"):
        return
    for addresses in ([address], ["93.184.215.14", address]):
        with pytest.raises(DeliveryFailed) as refused:
            Outbound("", resolve=Names(addresses)).post("https://rebound.example/", b"{}", {})
        assert address not in refused.value.reason


def test_accepts_hosts_on_the_internet() -> None:
    outbound = Outbound("")
    for url in ("https://example.com/hook?a=1", "https://1.1.1.1/", "https://[2606:4700::1111]/"):
        outbound.check(url, "url")


def test_sends_the_body_once_to_an_address_that_was_looked_up_once() -> None:
    names = Names(["127.0.0.1"], ["10.0.0.1"])
    with sink() as receiver:
        reply = Outbound(LOOPBACK, resolve=names).post(
            f"http://shop.example:{receiver.port}/hook?a=1", b'{"a":1}', {"webhook-id": "m1"}
        )
    assert (reply.status, reply.text, reply.is_accepted) == (200, "thanks", True)
    assert names.lookups == ["shop.example"]
    head, _, body = receiver.requests[0].decode().partition("\r\n\r\n")
    assert head.startswith("POST /hook?a=1 HTTP/1.1\r\n")
    assert f"host: shop.example:{receiver.port}" in head.lower()
    assert "webhook-id: m1" in head.lower()
    assert body == '{"a":1}'


def test_a_name_whose_address_changes_is_checked_at_each_delivery() -> None:
    with sink() as receiver:
        outbound = Outbound("127.0.0.0/8", resolve=Names(["127.0.0.1"], ["::1"]))
        url = f"http://rebound.example:{receiver.port}/"
        assert outbound.post(url, b"{}", {}).is_accepted
        with pytest.raises(DeliveryFailed):
            outbound.post(url, b"{}", {})
    assert len(receiver.requests) == 1


def test_plain_http_goes_only_to_networks_of_the_operator() -> None:
    with pytest.raises(DeliveryFailed, match="PENSTOCK_OUTBOUND_NETWORKS"):
        Outbound("10.0.0.0/8", resolve=Names(["93.184.215.14"])).post("http://a.example/", b"", {})
    with pytest.raises(Invalid):
        Outbound("10.0.0.0/8").check("http://192.168.0.1/", "url")


def test_allows_networks_of_the_operator_over_ipv6_and_mapped_addresses() -> None:
    with sink(host="::1") as receiver:
        url = f"http://[::1]:{receiver.port}/"
        assert Outbound(LOOPBACK).post(url, b"{}", {}).is_accepted
        assert f"host: [::1]:{receiver.port}".encode() in receiver.requests[0].lower()
    with sink() as receiver:
        mapped = Outbound("127.0.0.0/8", resolve=Names(["::ffff:127.0.0.1"]))
        assert mapped.post(f"http://a.example:{receiver.port}/", b"{}", {}).is_accepted


def test_follows_no_redirect(outbound: Outbound) -> None:
    with sink() as inner:
        location = f"http://127.0.0.1:{inner.port}/secret".encode()
        answer = b"HTTP/1.1 307 Go\r\nLocation: " + location + b"\r\nContent-Length: 0\r\n\r\n"
        with sink(says(answer)) as receiver:
            reply = outbound.post(f"http://127.0.0.1:{receiver.port}/", b"{}", {})
    assert (reply.status, reply.is_accepted, inner.requests) == (307, False, [])


def test_uses_no_proxy_of_the_environment(
    outbound: Outbound, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with sink() as receiver:
        assert outbound.post(f"http://127.0.0.1:{receiver.port}/", b"{}", {}).is_accepted


def _drip(connection: socket.socket, parts: Iterator[bytes]) -> None:
    for part in parts:
        connection.sendall(part)
        sleep(0.05)


@pytest.mark.parametrize(
    ("start", "part"),
    [
        (b"", b""),
        (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    ],
    ids=["silent", "headers", "early hints"],
)
def test_a_slow_response_ends_at_the_deadline(
    outbound: Outbound, start: bytes, part: bytes
) -> None:
    with sink(lambda connection: _drip(connection, iter([start, *[part] * 100]))) as receiver:
        before_s = monotonic()
        with pytest.raises(DeliveryFailed, match="did not respond in 1 s"):
            outbound.post(f"http://127.0.0.1:{receiver.port}/", b"{}", {})
    assert monotonic() - before_s < 2


def test_a_slow_body_ends_at_the_deadline_and_its_status_counts(outbound: Outbound) -> None:
    parts = [b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", *[b"x"] * 100]
    with sink(lambda connection: _drip(connection, iter(parts))) as receiver:
        before_s = monotonic()
        reply = outbound.post(f"http://127.0.0.1:{receiver.port}/", b"{}", {})
    assert reply.is_accepted
    assert monotonic() - before_s < 2


def test_a_receiver_that_reads_nothing_ends_at_the_deadline(outbound: Outbound) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        before_s = monotonic()
        with pytest.raises(DeliveryFailed):
            outbound.post(f"http://127.0.0.1:{listener.getsockname()[1]}/", b"x" * 20_000_000, {})
    assert monotonic() - before_s < 2


def test_a_lookup_that_hangs_ends_at_the_deadline() -> None:
    def hang(_host: str, _port: int) -> Sequence[str]:
        sleep(3)
        return ["127.0.0.1"]

    before_s = monotonic()
    with pytest.raises(DeliveryFailed, match="did not respond"):
        Outbound(LOOPBACK, resolve=hang, total_s=0.3).post("https://slow.example/", b"{}", {})
    assert monotonic() - before_s < 1


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n",
    ],
)
def test_reads_64_kib_of_a_huge_body(outbound: Outbound, head: bytes) -> None:
    sent = list[int]()

    def pour(connection: socket.socket) -> None:
        connection.sendall(head)
        with suppress(OSError):
            for _ in range(10_000):
                sent.append(connection.send(b"x" * 65536))

    with sink(pour) as receiver:
        reply = outbound.post(f"http://127.0.0.1:{receiver.port}/", b"{}", {})
    assert (reply.is_accepted, reply.text) == (True, "x" * 500)
    assert sum(sent) < 100_000_000


def test_huge_headers_end_the_delivery(outbound: Outbound) -> None:
    with (
        sink(says(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100_000)) as receiver,
        pytest.raises(DeliveryFailed, match="without a response"),
    ):
        outbound.post(f"http://127.0.0.1:{receiver.port}/", b"{}", {})


@pytest.mark.parametrize("value", ["a\r\nx-injected: 1", "a\nb", "a\0b"])
def test_headers_cannot_be_injected(outbound: Outbound, value: str) -> None:
    with sink() as receiver:
        with pytest.raises(DeliveryFailed):
            outbound.post(f"http://127.0.0.1:{receiver.port}/", b"{}", {"webhook-id": value})
        assert receiver.requests == []


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for `shop.example`, with its key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("shop.example")]), critical=True)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    pem = Encoding.PEM
    path = tmp_path / "certificate.pem"
    path.write_bytes(
        key.private_bytes(pem, PrivateFormat.PKCS8, NoEncryption()) + signed.public_bytes(pem)
    )
    return path


def test_requires_a_certificate_for_the_name(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names(["127.0.0.1"])
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    with sink(tls=tls) as receiver:
        url = f"https://shop.example:{receiver.port}/"
        with pytest.raises(DeliveryFailed, match="certificate"):
            Outbound(LOOPBACK, resolve=names).post(url, b"{}", {})
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert Outbound(LOOPBACK, resolve=names).post(url, b"{}", {}).is_accepted
        with pytest.raises(DeliveryFailed, match="certificate"):
            Outbound(LOOPBACK, resolve=names).post(url.replace("shop", "other"), b"{}", {})
        assert len(receiver.requests) == 1


def test_a_slow_host_does_not_delay_others() -> None:
    outbound = Outbound(LOOPBACK, resolve=Names(["127.0.0.1"]), total_s=3.0)
    with sink(lambda _: sleep(4)) as slow, sink() as fast:

        def post_slowly() -> None:
            with suppress(DeliveryFailed):
                outbound.post(f"http://slow.example:{slow.port}/", b"{}", {})

        threads = [Thread(target=post_slowly, daemon=True) for _ in range(40)]
        for thread in threads:
            thread.start()
        sleep(0.3)
        before_s = monotonic()
        assert outbound.post(f"http://fast.example:{fast.port}/", b"{}", {}).is_accepted
        assert monotonic() - before_s < 1
        assert len(slow.requests) == 4


def test_signatures_follow_standard_webhooks_with_each_secret() -> None:
    new, old = "whsec_" + "bmV3IHNlY3JldCBuZXcgc2VjcmV0", "whsec_" + "b2xkIHNlY3JldCBvbGQgc2VjcmV0"
    headers = signed_headers(new, "msg_1", int(time() * 1000), b'{"a":1}', old)
    for secret in (new, old):
        assert Webhook(secret).verify(b'{"a":1}', headers) == {"a": 1}
