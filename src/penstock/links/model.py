"""Plain types of managed links. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote, urlencode

from penstock.base.ids import LinkId, WebsiteId, WorkspaceId
from penstock.base.patterns import Pattern

SLUG = Pattern(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")

PUBLIC_PATH = "/l/"
"""Path of the public address of every link; the slug follows."""

LINK_ID_PARAM = "lk"
"""Query parameter with the link's ID, in the hosted URL and in addresses that open the app."""

CLICK_TOKEN_PARAM = "ct"  # noqa: S105 - a name, not a secret
"""Name of the click token in addresses that open the app and in the install referrer."""


class LinkState(StrEnum):
    ACTIVE = "active"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class Link:
    """A managed link.

    name: internal, never shown to people who open the link.
    destination_path: a route inside the app.
    fallback_url: an ASCII URL for people who cannot open the app.
    utm_*: campaign parameters of its clicks, never taken from a request.
    """

    id: LinkId
    workspace_id: WorkspaceId
    website_id: WebsiteId
    name: str
    slug: str
    destination_path: str
    fallback_url: str | None
    utm_source: str | None
    utm_medium: str | None
    utm_campaign: str | None
    is_active: bool
    created_at_ms: int
    updated_at_ms: int

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
        """The address to share unchanged. The app reads the query; the server ignores it."""
        query = urlencode({LINK_ID_PARAM: self.id, **self.utm}, quote_via=quote)
        return f"{self.short_url(base_url)}?{query}"
