"""Validates a link's two targets: a route inside the app, and a page on the web.

Both become part of URLs that strangers' devices open.
"""

import unicodedata
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

import idna

from penstock.base.networks import is_ip_address, is_public
from penstock.base.patterns import Pattern
from penstock.http.schema import RuleBroken

MAX_URL_CHARS = 2048

_MAX_DECODINGS = 5
_BIDI_CONTROLS = Pattern("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_CONTROL_CATEGORIES = ("Cc", "Zl", "Zp")
_SEGMENT_ENDS = Pattern(r"[/\\?#]")
_HOST_LABEL = Pattern(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_PRIVATE_SUFFIXES = (
    ".localhost",
    ".local",
    ".internal",
    ".home.arpa",
    ".lan",
    ".intranet",
    ".corp",
    ".private",
)
_DEFAULT_PORTS = {"http": 80, "https": 443}
URL_CHARACTERS = "%/:?#[]@!$&'()*+,;=-._~"
"""Characters that are not encoded: `%`, and the reserved and unreserved characters of RFC 3986."""


def destination_path(value: str) -> str:
    """Check a route inside the app and return it unchanged.

    A valid route starts with one slash, and no device can interpret it as another host or a parent
    folder. The text is checked as sent and after each percent-decoding, because apps differ in how
    often they decode.
    """
    if not value:
        raise RuleBroken("too_short", "Must not be empty; use / for the app's first screen.")
    if len(value) > MAX_URL_CHARS:
        raise RuleBroken("too_long", f"Must have at most {MAX_URL_CHARS:,} characters.")
    if value != value.strip():
        raise RuleBroken("outer_space", "Must not begin or end with a space.")
    spellings = _decodings(value)
    if any(
        unicodedata.category(character) in _CONTROL_CATEGORIES
        for spelling in spellings
        for character in spelling
    ):
        raise RuleBroken(
            "control_character",
            "Must not contain control characters, not even percent-encoded.",
        )
    if any(_BIDI_CONTROLS.search(spelling) for spelling in spellings):
        raise RuleBroken(
            "bidi_control", "Must not contain characters that change the text direction."
        )
    if not value.startswith("/"):
        raise RuleBroken(
            "not_a_route",
            "Must be a route inside the app that begins with one slash, such as /products/1.",
        )
    for spelling in _decodings(value.partition("?")[0].partition("#")[0]):
        if spelling[1:2] in ("/", "\\"):
            raise RuleBroken(
                "not_a_route",
                "Must begin with exactly one slash: a second slash or a backslash names a host.",
            )
        if ".." in _SEGMENT_ENDS.split(spelling):
            raise RuleBroken("not_a_route", 'Must not contain the path segment "..".')
    return value


def _decodings(text: str) -> list[str]:
    """Return the text and each result of percent-decoding it repeatedly."""
    spellings = [text]
    while len(spellings) <= _MAX_DECODINGS and (decoded := unquote(spellings[-1])) != spellings[-1]:
        spellings.append(decoded)
    return spellings


class WebUrlRules(NamedTuple):
    """Rules for the web URLs that a link may target.

    own_urls: this service's URLs, which are not allowed. private_hosts: whether private hosts are
    allowed.
    """

    own_urls: Sequence[str]
    private_hosts: bool


def web_url(value: str, rules: WebUrlRules) -> str:
    """Check an absolute http(s) URL and return it in ASCII, in Punycode and percent-encoded.

    Does not resolve or fetch it: a public name that resolves to a private address passes.
    """
    if len(value) > MAX_URL_CHARS:
        raise RuleBroken("too_long", f"Must have at most {MAX_URL_CHARS:,} characters.")
    if any(unicodedata.category(character) in _CONTROL_CATEGORIES for character in value):
        raise RuleBroken("control_character", "Must not contain control characters.")
    if _BIDI_CONTROLS.search(value):
        raise RuleBroken(
            "bidi_control", "Must not contain characters that change the text direction."
        )
    if "\\" in value or any(character.isspace() for character in value):
        raise RuleBroken("not_a_url", "Must not contain spaces or backslashes.")
    parts, port = _split(value)
    if "@" in parts.netloc:
        raise RuleBroken("credentials_in_url", "Must not contain a user name or password.")
    host = _host(parts.hostname or "")
    if any(_is_this_service(parts.scheme, host, port, own_url) for own_url in rules.own_urls):
        raise RuleBroken("leads_back", "Must not point to the host of the links.")
    if not rules.private_hosts and _is_private(host):
        raise RuleBroken("private_host", "Must not point to this machine or a private network.")
    address = f"[{host}]" if ":" in host else host
    netloc = address if port is None else f"{address}:{port}"
    path, query, fragment = (
        quote(part, safe=URL_CHARACTERS) for part in (parts.path, parts.query, parts.fragment)
    )
    return urlunsplit((parts.scheme, netloc, path, query, fragment))


def _split(value: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise RuleBroken(
            "not_a_url", "Must be an absolute URL with a valid host and port."
        ) from None
    # Check the raw text for `://`: browsers read `http:/host` as having a host, but urlsplit does
    # not.
    if (
        parts.scheme not in _DEFAULT_PORTS
        or value[len(parts.scheme) :][:3] != "://"
        or value[len(parts.scheme) + 3 :][:1] == "/"
    ):
        raise RuleBroken(
            "not_a_url", "Must be an absolute URL that begins with https:// or http://."
        )
    if not parts.hostname or port == 0:
        raise RuleBroken(
            "not_a_url", "Must have a host. Its port, if given, must be from 1 to 65535."
        )
    return parts, port


def _host(name: str) -> str:
    """Normalise a host as browsers do: a canonical IP address, or a name in Punycode."""
    broken = RuleBroken(
        "not_a_url", "Must have a valid host name, or an IP address in its usual form."
    )
    if ":" in name:
        try:
            address = ip_address(name)
        except ValueError:
            raise broken from None
        if isinstance(address, IPv6Address) and address.scope_id:
            raise broken
        return str(address)
    try:
        host = name.lower() if name.isascii() else idna.encode(name, uts46=True).decode("ascii")
    except idna.IDNAError:
        raise broken from None
    if is_ip_address(host):
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise broken from None
    if len(host) > 253 or not all(
        _HOST_LABEL.fullmatch(label) for label in host.removesuffix(".").split(".")
    ):
        raise broken
    return host


def is_private_name(host: str) -> bool:
    """Whether a host name is clearly local to this machine or a private network."""
    name = host.removesuffix(".")
    return "." not in name or f".{name}".endswith(_PRIVATE_SUFFIXES)


def _is_private(host: str) -> bool:
    if not is_ip_address(host):
        return is_private_name(host)
    return not is_public(ip_address(host))


def _is_this_service(scheme: str, host: str, port: int | None, own_url: str) -> bool:
    """Whether a URL points to this service's host and port. Ports 80 and 443 count as equal."""
    own = urlsplit(own_url)
    own_port = own.port or _DEFAULT_PORTS.get(own.scheme)
    url_port = port or _DEFAULT_PORTS[scheme]
    defaults = tuple(_DEFAULT_PORTS.values())
    return host.removesuffix(".") == own.hostname and (
        own_port == url_port or (own_port in defaults and url_port in defaults)
    )
