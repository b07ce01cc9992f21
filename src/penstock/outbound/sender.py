"""Sends requests to URLs that members choose, without reaching the operator's own network."""

from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from secrets import token_bytes
from ssl import SSLContext, SSLError

import httpcore
from standardwebhooks import Webhook

from penstock import __version__
from penstock.base.errors import Fault, Invalid, QueueFull
from penstock.base.fair_queue import FairQueue, QueueLimits
from penstock.base.networks import is_ip_address
from penstock.outbound.connections import (
    CheckedNetwork,
    Deadline,
    Resolve,
    resolve,
    resolve_in_time,
)
from penstock.outbound.model import DeliveryFailed, Reply
from penstock.outbound.targets import AllowedAddresses, Target, parse

TOTAL_S = 10.0
"""Maximum time of a delivery, in seconds."""
MAX_TEXT_CHARS = 500

_LIMITS = QueueLimits(slots=32, slots_per_key=4, waiting=128, waiting_per_key=32)
"""Limits of deliveries at once. The key is the host."""


class Outbound:
    """Sends requests to hosts on the internet, and in networks that the operator allows.

    networks: `Settings.outbound_networks`. resolve: looks up names; only tests change it. total_s:
    maximum time of a delivery.
    """

    def __init__(
        self, networks: str, *, resolve: Resolve = resolve, total_s: float = TOTAL_S
    ) -> None:
        self._allowed, self._resolve, self._total_s = AllowedAddresses(networks), resolve, total_s
        self._hosts = FairQueue("deliveries", _LIMITS)

    @cached_property
    def _tls(self) -> SSLContext:
        from httpx import create_ssl_context  # it takes memory, and most services send nothing

        return create_ssl_context()

    def check(self, url: str, field: str) -> None:
        """Raises `Invalid`, which names `field`, if deliveries to a URL could never succeed.

        Does not look up its host: `post` does, because its addresses can change.
        """
        try:
            self._allowed.check_url(parse(url))
        except DeliveryFailed as error:
            raise Invalid([Fault(field, "url_not_allowed", error.reason)]) from None

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Send a body and return the response, which may be a redirect or an error.

        Follows no redirect, uses no proxy, and blocks for up to ten seconds. Raises
        `DeliveryFailed`.
        """
        target, deadline = parse(url), Deadline(self._total_s)
        try:
            with self._hosts.slot(target.host, check=deadline.left_s):
                return self._post(target, deadline, body, headers)
        except QueueFull:
            raise DeliveryFailed("Too many other deliveries to this host are waiting.") from None
        except httpcore.TimeoutException:
            raise DeliveryFailed(f"The host did not respond in {self._total_s:g} s.") from None
        except httpcore.ConnectError as error:
            if isinstance(error.__cause__, SSLError):
                reason = "The host has no valid certificate for its name."
            else:
                reason = "No connection to the host could be made."
            raise DeliveryFailed(reason) from None
        except httpcore.LocalProtocolError:
            raise DeliveryFailed("A header of the request is not valid.") from None
        except (httpcore.NetworkError, httpcore.ProtocolError):
            raise DeliveryFailed("The host closed the connection without a response.") from None

    def _post(
        self, target: Target, deadline: Deadline, body: bytes, headers: Mapping[str, str]
    ) -> Reply:
        if is_ip_address(target.host):
            addresses = [target.host]
        else:
            addresses = list(resolve_in_time(self._resolve, target.host, target.port, deadline))
        network = CheckedNetwork(self._allowed.check(target, addresses), deadline)
        scheme, host = target.scheme.encode(), target.host.encode()
        url = httpcore.URL(scheme=scheme, host=host, port=target.port, target=target.path)
        sent: dict[bytes | str, bytes | str] = {
            "host": target.authority,
            "user-agent": f"Penstock/{__version__}",
            "accept-encoding": "identity",
            "content-type": "application/json",
            **{name.lower(): value for name, value in headers.items()},
            "content-length": str(len(body)),
            "connection": "close",
        }
        with (
            httpcore.HTTPConnection(url.origin, self._tls, network_backend=network) as connection,
            connection.stream("POST", url, headers=sent, content=body) as response,
        ):
            return Reply(response.status, _start_of(response))


def _start_of(response: httpcore.Response) -> str:
    """Return the start of a body. The status decides, so the body may be cut or invalid."""
    content = b""
    try:
        for chunk in response.iter_stream():
            content += chunk
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException):
        pass
    text = content.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text[:MAX_TEXT_CHARS]


def new_signing_secret() -> str:
    """Return a new secret of Standard Webhooks."""
    return f"whsec_{b64encode(token_bytes(32)).decode()}"


def signed_headers(
    secret: str, message_id: str, at_ms: int, body: bytes, *older_secrets: str
) -> dict[str, str]:
    """Return the headers of Standard Webhooks.

    older_secrets: secrets that a receiver may still use while a newer one replaces them.
    """
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    signatures = [
        Webhook(each).sign(message_id, at, body.decode()) for each in (secret, *older_secrets)
    ]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at_ms // 1000),
        "webhook-signature": " ".join(signatures),
    }
