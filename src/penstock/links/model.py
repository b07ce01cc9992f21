"""Plain types of managed links. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple, Self
from urllib.parse import quote, urlencode

from penstock.base.ids import LinkId, WebsiteId, WorkspaceId
from penstock.base.patterns import Pattern

PUBLIC_PATH = "/l/"
"""Start of the path in a link's public address. The slug follows."""

_SLUG = "[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?"
SLUG = Pattern(_SLUG)
_SLUG_IN_PATH = Pattern(f"{PUBLIC_PATH}({_SLUG})[^a-z0-9]*")

LINK_ID_PARAM = "lk"
"""Query parameter with the link's ID, in the hosted URL and in addresses that open the app."""

CLICK_TOKEN_PARAM = "ct"  # noqa: S105 - a name, not a secret
"""Query parameter with the click token, in addresses that open the app and in the referrer."""

REVISED = (
    *("name", "destination_path", "fallback_url", "utm_source", "utm_medium", "utm_campaign"),
    *("expires_at_ms", "expired_url"),
)
"""Changing one of these fields creates a new revision. A click keeps the revision of its time."""


class LinkState(StrEnum):
    """A link has exactly one state. Archiving does not change where a link leads."""

    ACTIVE = "active"
    DISABLED = "disabled"
    EXPIRED = "expired"
    ARCHIVED = "archived"


class LinkRevision(NamedTuple):
    """The state of a link from one change until the next. number: counts from 1."""

    number: int
    at_ms: int
    name: str
    destination_path: str
    fallback_url: str | None
    utm_source: str | None
    utm_medium: str | None
    utm_campaign: str | None
    expires_at_ms: int | None
    expired_url: str | None


@dataclass(frozen=True, slots=True)
class Link:
    """A managed link.

    name: internal, never shown to people who open the link.
    destination_path: a route inside the app.
    fallback_url: an ASCII URL for people who cannot open the app.
    pass_query: whether the fallback URL gets the query of the visit and the campaign parameters.
    utm_*: campaign parameters of its clicks, never taken from a request.
    expires_at_ms: from this time on the link leads to expired_url, or else to a not-found page.
    revision: number of the current revision, from 1.
    tags: in lower case, sorted.
    unstored_clicks: number of clicks over the quota, which are not stored.
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
        """The link with these values, in a new revision if one of `REVISED` changes.

        The link itself when nothing changes.
        """
        differing = {name for name, value in values.items() if value != getattr(self, name)}
        if not differing:
            return self
        revision = self.revision + (1 if differing & set(REVISED) else 0)
        return replace(self, **values, revision=revision, updated_at_ms=now_ms)

    def at_revision(self, revision: LinkRevision) -> Self:
        """The link with the fields of an earlier revision."""
        values = {name: getattr(revision, name) for name in REVISED}
        return replace(self, **values, revision=revision.number)

    @property
    def utm(self) -> dict[str, str]:
        """The link's `utm_source`, `utm_medium` and `utm_campaign`, without empty ones."""
        values = {
            "utm_source": self.utm_source,
            "utm_medium": self.utm_medium,
            "utm_campaign": self.utm_campaign,
        }
        return {name: value for name, value in values.items() if value}

    def short_url(self, base_url: str) -> str:
        """The public address without a query."""
        return f"{base_url}{PUBLIC_PATH}{self.slug}"

    def hosted_url(self, base_url: str) -> str:
        """The address to share. The app reads its query; the server ignores it."""
        query = urlencode({LINK_ID_PARAM: self.id, **self.utm}, quote_via=quote)
        return f"{self.short_url(base_url)}?{query}"


def slug_of_path(path: str) -> str | None:
    """The slug in the path of a public address; None when the path is not a link's.

    path: percent-decoded. Ignores letter case, and trailing characters that cannot belong to a
    slug: people and mail programs add a full stop, a bracket, a space or a line break.
    """
    match = _SLUG_IN_PATH.fullmatch(path.lower())
    return match[1] if match else None
