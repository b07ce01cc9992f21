"""Networks of clients, so that one client with many addresses counts as one."""

from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address


def network_of(address: str) -> str:
    """A client's network: its IPv4 address, or the /64 of an IPv6 address. Empty for no IP."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(ip, IPv6Address):
        ip = ip.ipv4_mapped or ip
    return str(
        IPv6Network((int(ip), 64), strict=False) if isinstance(ip, IPv6Address) else IPv4Network(ip)
    )
