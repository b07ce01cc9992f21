"""What an app hands over, read: the address that it was opened with, and the install referrer. Both may be anything at all."""

from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from penstock.links.schema import SLUG
from penstock.links.targets import CLICK_TOKEN

LINK_ID = "lk"
"""Name of the link's ID in addresses."""

_MOST_FIELDS = 100
_PUBLIC_PATH = "/l/"


class Named(NamedTuple):
    """What an opened address names: the link by ID or slug, and maybe the click by its token. Empty: not there."""

    link_id: str = ""
    slug: str = ""
    token: str = ""

    def __bool__(self) -> bool:
        return bool(self.link_id or self.slug)


def named_by_url(url: str, base_url: str) -> Named:
    """What is left out of an address decides nothing: neither its UTM nor its path inside the app."""
    try:
        parts, own = urlsplit(url), urlsplit(base_url)
    except ValueError:
        return Named()
    fields = _fields(parts.query)
    slug = ""
    if parts.scheme in ("http", "https") and parts.netloc.lower() == own.netloc.lower() and parts.path.startswith(_PUBLIC_PATH):
        slug = parts.path.removeprefix(_PUBLIC_PATH)
    return Named(fields.get(LINK_ID, ""), slug if SLUG.fullmatch(slug) else "", fields.get(CLICK_TOKEN, ""))


def token_of_referrer(referrer: str) -> str:
    """The click token in what Google Play hands to the app; empty when there is none. Some libraries hand it over still encoded."""
    return _fields(referrer).get(CLICK_TOKEN) or _fields(unquote(referrer)).get(CLICK_TOKEN, "")


def _fields(query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, max_num_fields=_MOST_FIELDS, errors="replace"))
    except ValueError:
        return {}
