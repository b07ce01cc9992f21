"""Network addresses: the network of a client, and the trusted proxies."""

from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network


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
