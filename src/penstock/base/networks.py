"""Network addresses: the network of a client, the trusted proxies, and private addresses."""

from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from penstock.base.patterns import Pattern

_NUMBER = Pattern(r"[0-9]+|0x[0-9a-f]*")
_NAT64 = IPv6Network("64:ff9b::/96")
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")  # NAT64 prefix for local use, RFC 8215
_SITE_LOCAL = IPv6Network("fec0::/10")  # deprecated; Python considers it global
_IPV4_COMPATIBLE = IPv6Network("::/96")
_IPV4_TRANSLATED = IPv6Network("::ffff:0:0:0/96")


@lru_cache(maxsize=10_000)
def network_of(address: str) -> str:
    """Return a client's network: its IPv4 address, or the /64 of its IPv6 address.

    Empty if the text is not an IP address. A provider usually gives each customer a whole /64.
    """
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(ip, IPv6Address):
        ip = ip.ipv4_mapped or ip
    return str(
        IPv6Network((int(ip), 64), strict=False) if isinstance(ip, IPv6Address) else IPv4Network(ip)
    )


def client_network(address: str) -> str:
    """Like `network_of`, but returns a text that is not an IP address unchanged."""
    return network_of(address) or address


class TrustedNetworks:
    """The proxies in `Settings.trusted_proxies`.

    trusts_all: the setting is `*`, so any address may be a proxy.
    """

    def __init__(self, proxies: str) -> None:
        entries = [entry.strip() for entry in proxies.split(",")]
        self.trusts_all = "*" in entries
        self._networks = [ip_network(entry) for entry in entries if entry not in ("", "*")]
        self._contains_cached = lru_cache(maxsize=10_000)(self._contains)

    def __contains__(self, address: str) -> bool:
        return self._contains_cached(address)

    def _contains(self, address: str) -> bool:
        try:
            ip = ip_address(address)
        except ValueError:
            return False
        return any(ip in network for network in self._networks)


def is_ip_address(host: str) -> bool:
    """Whether browsers read a host as an IP address, such as 127.1, 0x7f000001 or 2130706433.

    Source: WHATWG, URL, "ends in a number checker".
    """
    return ":" in host or _NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]) is not None


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is on the internet: neither private nor for several machines."""
    embedded = _embedded_address(address)
    return (
        embedded.is_global
        and not embedded.is_multicast
        and not address.is_multicast
        and address not in _LOCAL_NAT64
        and address not in _SITE_LOCAL
    )


def _embedded_address(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an IPv6 address embeds, or the address itself.

    Supports the IPv4-mapped and IPv4-compatible forms (RFC 4291), IPv4-translated (RFC 2765), 6to4
    (RFC 3056) and NAT64 (RFC 6052).
    """
    if not isinstance(address, IPv6Address):
        return address
    is_compatible = address in _IPV4_COMPATIBLE and int(address) > 0xFFFF
    if is_compatible or address in _NAT64 or address in _IPV4_TRANSLATED:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address
