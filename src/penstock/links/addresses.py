"""The two addresses of a link: a route inside the app, and a page on the web. Each ends up in a URL that strangers' devices open."""

import re
import unicodedata
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

import idna

from penstock.http.schema import RuleBroken

MAX_ADDRESS_CHARS = 2048

_DECODINGS = 5
_BIDI_CONTROLS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_LINE_BREAKING = ("Cc", "Zl", "Zp")
_AFTER_PATH = re.compile(r"[?#]")
_SEGMENT_ENDS = re.compile(r"[/\\?#]")
_HOST_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PRIVATE_ENDINGS = (".localhost", ".local", ".internal", ".home.arpa", ".lan", ".intranet", ".corp", ".private")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_URL_CHARACTERS = "%/:?#[]@!$&'()*+,;=-._~"


def destination_path(value: str) -> str:
    """A route inside the app, kept as sent: one slash, then anything that no device can take for another host or another folder.

    It is looked at as sent and after each percent-decoding, because it is not ours to know how often the app decodes it.
    """
    if not value:
        raise RuleBroken("too_short", "Must not be empty; the app's first screen is /.")
    if len(value) > MAX_ADDRESS_CHARS:
        raise RuleBroken("too_long", f"Must have at most {MAX_ADDRESS_CHARS:,} characters.")
    if value != value.strip():
        raise RuleBroken("outer_space", "Must neither begin nor end with a space.")
    spellings = _decodings(value)
    if any(unicodedata.category(character) in _LINE_BREAKING for spelling in spellings for character in spelling):
        raise RuleBroken("control_character", "Must not contain control characters, percent-encoded ones included.")
    if any(_BIDI_CONTROLS.search(spelling) for spelling in spellings):
        raise RuleBroken("bidi_control", "Must not contain characters that change the direction of text.")
    if not value.startswith("/"):
        raise RuleBroken("not_a_route", "Must be a route inside the app that begins with one slash, as /products/1.")
    for spelling in _decodings(_AFTER_PATH.split(value, maxsplit=1)[0]):
        if spelling[1:2] in ("/", "\\"):
            raise RuleBroken("not_a_route", "Must begin with one slash: with a second one, or a backslash, it names another host.")
        if ".." in _SEGMENT_ENDS.split(spelling):
            raise RuleBroken("not_a_route", "Must not have .. as a part of the path.")
    return value


def _decodings(text: str) -> list[str]:
    """The text, and what it becomes by percent-decoding it again and again."""
    spellings = [text]
    while len(spellings) <= _DECODINGS and (decoded := unquote(spellings[-1])) != spellings[-1]:
        spellings.append(decoded)
    return spellings


class WebRules(NamedTuple):
    """What an operator lets a web address lead to. base_url: of this service, which no link may lead back to."""

    base_url: str
    private_hosts: bool


def web_address(value: str, rules: WebRules) -> str:
    """An absolute http(s) URL in ASCII: an international host in the spelling of the DNS, other characters percent-encoded.

    Never fetched. Only the spelling is judged, so a public name that leads to a private address is not noticed.
    """
    if len(value) > MAX_ADDRESS_CHARS:
        raise RuleBroken("too_long", f"Must have at most {MAX_ADDRESS_CHARS:,} characters.")
    if any(unicodedata.category(character) in _LINE_BREAKING for character in value):
        raise RuleBroken("control_character", "Must not contain control characters.")
    if _BIDI_CONTROLS.search(value):
        raise RuleBroken("bidi_control", "Must not contain characters that change the direction of text.")
    if "\\" in value or any(character.isspace() for character in value):
        raise RuleBroken("not_a_url", "Must not contain spaces or backslashes.")
    parts, port = _split(value)
    if "@" in parts.netloc:
        raise RuleBroken("credentials_in_url", "Must not contain a user name or a password.")
    host = _host(parts.hostname or "")
    if _is_this_service(parts.scheme, host, port, rules.base_url):
        raise RuleBroken("leads_back", "Must not lead back to the host of the links.")
    if not rules.private_hosts and _is_private(host):
        raise RuleBroken("private_host", "Must not lead to this machine or into a private network.")
    address = f"[{host}]" if ":" in host else host
    netloc = address if port is None else f"{address}:{port}"
    path, query, fragment = (quote(part, safe=_URL_CHARACTERS) for part in (parts.path, parts.query, parts.fragment))
    return urlunsplit((parts.scheme, netloc, path, query, fragment))


def _split(value: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise RuleBroken("not_a_url", "Must be an absolute URL with a valid host and port.") from None
    # The two slashes are looked for in the text: the parser takes `http:/host` for an address without a host, browsers do not.
    if parts.scheme not in _DEFAULT_PORTS or value[len(parts.scheme) :][:3] != "://" or value[len(parts.scheme) + 3 :][:1] == "/":
        raise RuleBroken("not_a_url", "Must be an absolute URL that begins with https:// or http://.")
    if not parts.hostname or port == 0:
        raise RuleBroken("not_a_url", "Must have a host, and a port from 1 to 65535 if any.")
    return parts, port


def _host(name: str) -> str:
    """A host as browsers understand it: an IP address in its one spelling, or a name in the spelling of the DNS."""
    broken = RuleBroken("not_a_url", "Must have a host name, or an IP address in its usual spelling.")
    if ":" in name:
        try:
            address = ip_address(name)
        except ValueError:
            raise broken from None
        if getattr(address, "scope_id", None):
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
    if len(host) > 253 or not all(_HOST_LABEL.fullmatch(label) for label in host.removesuffix(".").split(".")):
        raise broken
    return host


def is_ip_address(host: str) -> bool:
    """Whether a host is an IP address to a browser, which takes 127.1, 0x7f000001 and 2130706433 for one as well.

    Source: WHATWG, URL, "ends in a number checker".
    """
    return ":" in host or _NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]) is not None


def is_private_name(host: str) -> bool:
    """Whether a host that is no IP address is known to this machine or a private network alone, by its spelling."""
    name = host.removesuffix(".")
    return "." not in name or f".{name}".endswith(_PRIVATE_ENDINGS)


def _is_private(host: str) -> bool:
    if not is_ip_address(host):
        return is_private_name(host)
    address = ip_address(host)
    return not _embedded(address).is_global or address.is_multicast


def _embedded(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address inside an IPv6 one that stands for it."""
    if isinstance(address, IPv6Address):
        return address.ipv4_mapped or address.sixtofour or address
    return address


def _is_this_service(scheme: str, host: str, port: int | None, base_url: str) -> bool:
    """Whether an address is one of this service: the same host at the same port; of the two default ports one leads to the other."""
    own = urlsplit(base_url)
    own_port, its_port = own.port or _DEFAULT_PORTS.get(own.scheme), port or _DEFAULT_PORTS[scheme]
    default = tuple(_DEFAULT_PORTS.values())
    return host.removesuffix(".") == own.hostname and (own_port == its_port or (own_port in default and its_port in default))
