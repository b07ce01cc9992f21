"""Checks the URLs that members choose, and the addresses that these lead to. No I/O.

A URL is parsed only here: the connection gets its parts, so that no other parser reads it
differently.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import NamedTuple
from urllib.parse import urlsplit

from penstock.base.networks import embedded_address, is_ip_address, is_public
from penstock.base.patterns import Pattern
from penstock.outbound.model import DeliveryFailed

Address = IPv4Address | IPv6Address

MAX_URL_CHARS = 2000

_PORTS = {"https": 443, "http": 80}
_HOST = Pattern(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.?)+")
_CLOUD_HOST = IPv4Address("168.63.129.16")
"""A public address under which Azure serves the secrets of a virtual machine."""
_PRIVATE = (
    "The host is on this machine or in a private network. The operator can allow its network with "
    "PENSTOCK_OUTBOUND_NETWORKS."
)


class Target(NamedTuple):
    """The parts of a URL. host: a name, or an IP address without brackets. path: with the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The value of the header `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def parse(url: str) -> Target:
    """Raises `DeliveryFailed` if the URL is not valid."""
    if len(url) > MAX_URL_CHARS:
        raise DeliveryFailed(f"The URL must have at most {MAX_URL_CHARS:,} characters.")
    if not url.isascii() or not url.isprintable() or {" ", "\\"} & set(url):
        raise DeliveryFailed(
            "The URL must be ASCII without spaces, control characters and backslashes. Write "
            "other characters of a host in Punycode, and of a path percent-encoded."
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise DeliveryFailed("The URL must have a valid host and port.") from None
    if parts.scheme not in _PORTS or not url[len(parts.scheme) :].startswith("://"):
        raise DeliveryFailed("The URL must begin with https://.")
    if "@" in parts.netloc:
        raise DeliveryFailed("The URL must not contain a user name or password.")
    if "#" in url:
        raise DeliveryFailed("The URL must not contain a fragment (#).")
    if port == 0:
        raise DeliveryFailed("The port of the URL must be from 1 to 65535.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, _host(parts.hostname or ""), port or _PORTS[parts.scheme], path)


def site_of(url: str) -> str:
    """Return the scheme and host of a URL, whose path may be a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}"


def _host(name: str) -> str:
    if is_ip_address(name) and "%" not in name:  # no zone: a zone is of this machine
        try:
            return str(ip_address(name))
        except ValueError:
            raise DeliveryFailed(
                "An IP address as the host of the URL must have its usual form, such as "
                "203.0.113.7 or [2001:db8::7]."
            ) from None
    if len(name) > 253 or not _HOST.fullmatch(name):
        raise DeliveryFailed("The URL must have a valid host.")
    return name


class AllowedAddresses:
    """Decides to which addresses deliveries may go.

    networks: comma-separated private networks that the operator allows.
    """

    def __init__(self, networks: str) -> None:
        self.networks = [ip_network(each.strip()) for each in networks.split(",") if each.strip()]

    def check_url(self, target: Target) -> None:
        """Raises `DeliveryFailed` if no address of the host could be allowed."""
        if is_ip_address(target.host):
            self.check(target, [target.host])
        elif target.scheme == "http" and not self.networks:
            raise DeliveryFailed("The URL must begin with https://.")
        elif f".{target.host.removesuffix('.')}".endswith(".localhost") and not self.networks:
            raise DeliveryFailed(_PRIVATE)

    def check(self, target: Target, texts: Sequence[str]) -> list[str]:
        """Return the addresses of a host. Raises `DeliveryFailed` unless all are allowed."""
        addresses = [_plain(ip_address(text)) for text in texts]
        listed = [any(each in network for network in self.networks) for each in addresses]
        if target.scheme == "http" and not all(listed):
            raise DeliveryFailed(
                "The URL must begin with https://; http:// is only for networks that the operator "
                "allows with PENSTOCK_OUTBOUND_NETWORKS."
            )
        for address, is_listed in zip(addresses, listed, strict=True):
            is_cloud_host = embedded_address(address) == _CLOUD_HOST
            if not is_listed and (is_cloud_host or not is_public(address)):
                raise DeliveryFailed(_PRIVATE)
        return [str(address) for address in addresses]


def _plain(address: Address) -> Address:
    """Return the IPv4 address that an IPv4-mapped address means, or the address itself."""
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address
