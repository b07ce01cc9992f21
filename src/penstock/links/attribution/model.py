"""Plain types for attribution: evidence methods, claimable clicks, decisions, matches."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from penstock.base.ids import ClickId, LinkId, ScopeId, VisitorId, WebsiteId, WorkspaceId
from penstock.links.model import Link


class Method(StrEnum):
    """The kind of evidence that matched an open, most certain first."""

    URL = "url"
    INSTALL_REFERRER = "install_referrer"
    CLICK_TOKEN = "click_token"  # noqa: S105 - a name, not a secret
    NETWORK = "network"


class Reason(StrEnum):
    """The reason why an open has no match."""

    NO_CLICK = "no_click"
    EXPIRED = "expired"
    AMBIGUOUS = "ambiguous"
    CLAIMED = "claimed"
    DISABLED = "disabled"
    LINK_EXPIRED = "link_expired"
    NOT_ALLOWED = "not_allowed"


class ClaimableClick(NamedTuple):
    """A click that an install can claim.

    link_revision, utm: the link's revision and UTM parameters at the time of the click.
    claimed_by: the install's ID; None if unclaimed, empty if the claiming visitor was deleted.
    """

    id: ClickId
    website_id: WebsiteId
    link_id: LinkId
    link_revision: int
    clicked_at_ms: int
    os_major: int
    utm: Mapping[str, str]
    claimed_at_ms: int | None
    claimed_by: str | None


class Decision(NamedTuple):
    """The decision about which link an open came from.

    at_ms: time of the first decision about the open. method: the evidence that led to the link,
    even if the click was rejected. reason: why there is no match; None if there is a match. links:
    the links involved, as they were at the time of the click if there is one; exactly one for a
    match.
    """

    at_ms: int
    method: Method | None = None
    reason: Reason | None = None
    links: Sequence[Link] = ()
    click: ClaimableClick | None = None
    confidence: float | None = None

    @property
    def is_match(self) -> bool:
        return self.reason is None

    @property
    def link(self) -> Link | None:
        """The matched link, or None if there is no match."""
        return self.links[0] if self.is_match else None

    @property
    def utm(self) -> Mapping[str, str]:
        """A match's campaign parameters: those of the click if there is one, otherwise those of the
        link.
        """
        if self.link is None:
            return {}
        return self.link.utm if self.click is None else self.click.utm


class Match(NamedTuple):
    """A row of the audit list: a decision about a single link.

    link_id: None if the decision does not involve a link. link_revision: the link's revision; 1 if
    there is no link. method: the evidence that led to the link, even if the click was rejected.
    install_id, visitor_id: the install and its visitor; None once the visitor is deleted.
    """

    id: str
    workspace_id: WorkspaceId
    website_id: WebsiteId
    link_id: LinkId | None
    link_revision: int
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
