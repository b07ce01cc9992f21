"""Syntax checks for URLs and hosts of services in an operator's settings."""

from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit


def is_http_url(url: str) -> bool:
    """Whether this is an HTTP URL with a host. Port, credentials and path are optional."""
    parts = _split(url)
    if parts is None or parts.scheme not in ("http", "https") or parts.port == 0:
        return False
    return bool(parts.hostname) and not any(character.isspace() for character in url)


def is_public_url(url: str) -> bool:
    """Whether this is a valid base URL, to which paths can be appended."""
    return is_http_url(url) and not ({"?", "#", "@"} & set(url))


def public_url_without_scheme(text: str) -> str | None:
    """Return the intended public URL if only the scheme is missing; None for any other text."""
    address = text.strip().lstrip("/")
    url = f"{'http' if is_loopback(host_name(f'//{address}')) else 'https'}://{address}"
    return url if "://" not in text and is_public_url(url) else None


def host_name(url: str) -> str:
    """Return the host of a URL without its port; empty if there is no host."""
    parts = _split(url)
    return (parts and parts.hostname) or ""


def is_host(host: str) -> bool:
    """Whether a text is a host name or an IP address, optionally with a port."""
    parts = _split(f"//{host}")
    is_plain = all(character.isalnum() or character in "-.:[]" for character in host)
    return (
        parts is not None
        and parts.netloc == host
        and is_plain
        and host.isascii()
        and bool(parts.hostname)
    )


def is_provider_url(url: str) -> bool:
    """Whether an identity provider's URL uses `https`, or `http` on this machine."""
    parts = _split(url)
    host = (parts and parts.hostname) or ""
    return (
        parts is not None
        and bool(host)
        and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))
    )


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _split(url: str) -> SplitResult | None:
    """Split a URL into its parts; None if its host or port is invalid."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises for a port that is not a number
        (parts.hostname or "").encode("idna")  # raises an error for a name that DNS cannot contain
    except ValueError:
        return None
    return parts
