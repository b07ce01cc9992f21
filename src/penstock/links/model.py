"""Plain types for managed links. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Self
from urllib.parse import quote, urlencode

from penstock.base.ids import LinkId, WebsiteId, WorkspaceId
from penstock.base.patterns import Pattern

PUBLIC_PATH = "/l/"
"""Path prefix of a link's public URL, followed by the slug."""

_SLUG = "[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?"
SLUG = Pattern(_SLUG)
_SLUG_IN_PATH = Pattern(f"{PUBLIC_PATH}({_SLUG})[^a-z0-9]*")

LINK_ID_PARAM = "lk"
"""Name of the query parameter for the link's ID, in the hosted URL and in URLs that open the
app.
"""

CLICK_TOKEN_PARAM = "ct"  # noqa: S105 - a name, not a secret
"""Name of the query parameter for the click token, in URLs that open the app and in the install
referrer.
"""

UTM = ("utm_source", "utm_medium", "utm_campaign")
"""Fields with the campaign parameters of a link, which are also columns."""

REVISED = ("name", "destination_path", "fallback_url", *UTM, "expires_at_ms", "expired_url")
"""Fields that create a new revision when they change. Each click stores the link's revision at that
time.
"""


class LinkState(StrEnum):
    """The state of a link. Archiving does not change where a link leads."""

    ACTIVE = "active"
    DISABLED = "disabled"
    EXPIRED = "expired"
    ARCHIVED = "archived"


@dataclass(frozen=True, slots=True)
class Link:
    """A managed link.

    name: internal, never shown to people who open the link. destination_path: a route inside the
    app. fallback_url: an ASCII URL for people who cannot open the app. pass_query: whether the
    visit's query and the campaign parameters are added to fallback_url. utm_*: campaign parameters
    of the link's clicks, never taken from a request. expires_at_ms: time after which the link leads
    to expired_url, or to a 404 page if expired_url is not set. revision: number of the current
    revision, from 1. tags: sorted tags in lower case. unstored_clicks: number of clicks that were
    not stored because they exceeded the quota.
    """

    id: LinkId
    workspace_id: WorkspaceId
    website_id: WebsiteId
    name: str
    slug: str
    destination_path: str
    created_at_ms: int
    updated_at_ms: int
    fallback_url: str | None = None
    utm_source: str | None = None
    utm_medium: str | None = None
    utm_campaign: str | None = None
    expires_at_ms: int | None = None
    expired_url: str | None = None
    revision: int = 1
    tags: tuple[str, ...] = ()
    is_active: bool = True
    is_archived: bool = False
    pass_query: bool = False
    unstored_clicks: int = 0

    def is_expired(self, now_ms: int) -> bool:
        return self.expires_at_ms is not None and self.expires_at_ms <= now_ms

    def state(self, now_ms: int) -> LinkState:
        if self.is_archived:
            return LinkState.ARCHIVED
        if not self.is_active:
            return LinkState.DISABLED
        return LinkState.EXPIRED if self.is_expired(now_ms) else LinkState.ACTIVE

    def with_changes(self, values: Mapping[str, Any], now_ms: int) -> Self:
        """Return the link with these values, as a new revision if a field in `REVISED` changes.

        Returns the same link if nothing changes.
        """
        differing = {name for name, value in values.items() if value != getattr(self, name)}
        if not differing:
            return self
        revision = self.revision + (1 if differing & set(REVISED) else 0)
        return replace(self, **values, revision=revision, updated_at_ms=now_ms)

    @property
    def utm(self) -> dict[str, str]:
        """The link's `utm_source`, `utm_medium` and `utm_campaign`, without empty values."""
        return {name: value for name in UTM if (value := getattr(self, name))}

    def short_url(self, base_url: str) -> str:
        """Return the public URL without a query."""
        return f"{base_url}{PUBLIC_PATH}{self.slug}"

    def hosted_url(self, base_url: str) -> str:
        """Return the URL to share. The app reads its query; the server ignores it."""
        query = urlencode({LINK_ID_PARAM: self.id, **self.utm}, quote_via=quote)
        return f"{self.short_url(base_url)}?{query}"


@lru_cache(maxsize=1000)
def slug_of_path(path: str) -> str | None:
    """Return the slug in the path of a public URL; None if the path does not belong to a link.

    Ignores case, and trailing characters that cannot be part of a slug: people and mail programs
    add a full stop, a bracket, a space or a line break. path: the path after percent-decoding.
    """
    match = _SLUG_IN_PATH.fullmatch(path.lower())
    return match[1] if match else None
