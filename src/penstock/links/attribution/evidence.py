"""Parses the evidence that an app sends: the opened URL and the install referrer.

Both may contain any text.
"""

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from penstock.links.model import CLICK_TOKEN_PARAM, LINK_ID_PARAM, slug_of_path

_MAX_PARAMS = 100


class UrlEvidence(NamedTuple):
    """The link's ID or slug and the click token from an opened URL. Missing values are empty."""

    link_id: str = ""
    slug: str = ""
    token: str = ""

    @property
    def names_link(self) -> bool:
        return bool(self.link_id or self.slug)


def parse_opened_url(url: str, link_urls: Sequence[str]) -> UrlEvidence:
    """Extract the link and click from a URL. Ignores campaign parameters and the app's path.

    link_urls: base URLs of the hosts that serve links.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return UrlEvidence()
    params = _parse_query(parts.query)
    is_ours = parts.scheme in ("http", "https") and parts.netloc.lower() in (
        urlsplit(own).netloc.lower() for own in link_urls
    )
    return UrlEvidence(
        link_id=params.get(LINK_ID_PARAM, ""),
        slug=(slug_of_path(unquote(parts.path)) or "") if is_ours else "",
        token=params.get(CLICK_TOKEN_PARAM, ""),
    )


def referrer_token(referrer: str) -> str:
    """Return the click token in Google Play's install referrer; empty if there is none.

    Decodes the referrer if necessary, because some libraries pass it on percent-encoded.
    """
    token = _parse_query(referrer).get(CLICK_TOKEN_PARAM)
    return token or _parse_query(unquote(referrer)).get(CLICK_TOKEN_PARAM, "")


def is_organic(referrer: str) -> bool:
    """Whether the install referrer says that the user found the app by browsing Google Play.

    Source: Google, "Play Install Referrer Library".
    """
    return any(
        (params.get("utm_source"), params.get("utm_medium")) == ("google-play", "organic")
        for params in (_parse_query(referrer), _parse_query(unquote(referrer)))
    )


def _parse_query(query: str) -> dict[str, str]:
    """Return the query's parameters, except values that contain NUL, which PostgreSQL cannot
    store.
    """
    try:
        pairs = parse_qsl(query, max_num_fields=_MAX_PARAMS, errors="replace")
    except ValueError:
        return {}
    return {name: value for name, value in pairs if "\0" not in value}
