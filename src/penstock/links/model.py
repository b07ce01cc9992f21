"""Plain types of managed links. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote, urlencode

from penstock.base.ids import LinkId, WebsiteId, WorkspaceId


class LinkState(StrEnum):
    ACTIVE = "active"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class Link:
    """A managed link. name: internal, never shown to those who open it. destination_path: a route inside the app.

    fallback_url: an ASCII address for those who cannot open the app. utm_*: what its clicks count as; never taken from a request.
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
        """Those of `utm_source`, `utm_medium` and `utm_campaign` that the link has."""
        named = {"utm_source": self.utm_source, "utm_medium": self.utm_medium, "utm_campaign": self.utm_campaign}
        return {name: value for name, value in named.items() if value}

    def hosted_url(self, base_url: str) -> str:
        """The address to share, unchanged. Its query is for an app that opens it by itself; the server reads none of it."""
        return f"{base_url}/l/{self.slug}?{urlencode({'lk': self.id, **self.utm}, quote_via=quote)}"
