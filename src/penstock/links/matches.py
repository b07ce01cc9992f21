"""What is kept of each resolve, for those who want to know why an install did or did not count."""

from collections.abc import Sequence
from typing import NamedTuple, Self

from penstock.base.ids import ClickId, LinkId, ScopeId, VisitorId, WebsiteId, WorkspaceId
from penstock.links.resolving import Method, Reason


class Match(NamedTuple):
    """A resolve, as far as it concerns one link. Without a link: it concerned none.

    method: what led to the link, also where it was refused.
    install_id, visitor_id: as the app named them; None once the visitor was deleted.
    """

    id: str
    workspace_id: WorkspaceId
    website_id: WebsiteId
    link_id: LinkId | None
    click_id: ClickId | None
    at_ms: int
    matched: bool
    method: Method | None
    confidence: float | None
    reason: Reason | None
    platform: str
    os_version: str | None
    app_version: str | None
    first_open: bool
    clicked_at_ms: int | None
    install_id: str | None
    scope_id: ScopeId
    visitor_id: VisitorId | None


class Listed(NamedTuple):
    """A match with the slug of its link; None without a link."""

    match: Match
    slug: str | None


class Touch(NamedTuple):
    """A link that led a visitor into the app, with its UTM as it counted then."""

    at_ms: int
    link_id: str
    utm_source: str | None
    utm_medium: str | None
    utm_campaign: str | None


class Touches(NamedTuple):
    """What led a visitor here; None: no link did. visitor_id: canonical."""

    visitor_id: VisitorId
    first: Touch | None
    last: Touch | None

    @classmethod
    def of(cls, visitor_id: VisitorId, firsts: Sequence[Touch], lasts: Sequence[Touch]) -> Self:
        """Out of those of everyone that the visitor was before merges: the earliest first, the latest last."""
        return cls(visitor_id, min(firsts, key=_at_ms, default=None), max(lasts, key=_at_ms, default=None))


def _at_ms(touch: Touch) -> int:
    return touch.at_ms
