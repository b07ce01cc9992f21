"""Wire types for attribution: app opens and their results, the audit list and touches."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator

from penstock.base.user_agent import Platform
from penstock.events.fields import EventName, SentId, Text
from penstock.http.schema import Input, Iso, PageQuery, Query, Record, RuleBroken, without_nul
from penstock.identity.model import is_placeholder
from penstock.links.attribution.model import Decision, Method, Reason


def _install_id(value: str) -> str:
    if is_placeholder(value):
        raise RuleBroken(
            "stands_for_nobody",
            "This is a placeholder. Generate a random ID when the app first starts, and store it.",
        )
    return value


def _app_platform(value: Any) -> Any:
    """Check the platform. Pydantic's own message would show the members of a Python enum."""
    if value not in (Platform.IOS, Platform.ANDROID):
        raise RuleBroken("not_one_of", "Must be 'ios' or 'android'.")
    return value


Version = EventName
"""A version name with 1 to 200 characters."""


class AppOpen(Input):
    """An app open. The Pydantic validation context is `EventValidationContext`."""

    website_id: SentId
    install_id: Annotated[SentId, AfterValidator(_install_id)]
    """Random ID that the app generated at its first start."""
    visitor_id: SentId | None = None
    """The visitor, if the app already tracks visitors."""
    platform: Annotated[Literal[Platform.IOS, Platform.ANDROID], BeforeValidator(_app_platform)]
    os_version: Version | None = None
    app_version: Version | None = None
    first_open: bool
    url: Text | None = None
    """The URL that opened the app."""
    install_referrer: Text | None = None
    """Google Play's install referrer, unchanged."""
    click_token: Text | None = None
    """The landing page's `ct`, if the app received it in another way."""
    dedupe_key: SentId | None = None
    """The same for all retries of one open."""

    @property
    def has_evidence(self) -> bool:
        """Whether the app sent anything that can identify a link or a click."""
        return any((self.url, self.install_referrer, self.click_token))


class UtmRecord(Record):
    source: str | None
    medium: str | None
    campaign: str | None

    @classmethod
    def from_utm(cls, utm: Mapping[Any, Any]) -> Self:
        """Build the record from `utm_source`, `utm_medium` and `utm_campaign`, if they are set."""
        return cls(**{name: utm.get(f"utm_{name}") for name in cls.model_fields})


class MatchedLinkRecord(Record):
    id: str
    slug: str


class ResolvedRecord(Record):
    """The result of an open. If there is no match, `reason` says why, and the link's fields are
    null.
    """

    matched: bool
    method: Method | None
    """The method that found the link or click, even if the match was rejected."""
    confidence: float | None
    """1 for a certain match; at most 0.7 for a match by network."""
    destination_path: str | None
    """The link's route inside the app."""
    link: MatchedLinkRecord | None
    utm: UtmRecord | None
    clicked_at: Iso | None
    """Also null for a match by a URL without a click token."""
    visitor_id: str
    """The canonical visitor; use this ID from now on."""
    reason: Reason | None

    @classmethod
    def from_decision(cls, decision: Decision, visitor_id: str) -> Self:
        link, click = decision.link, decision.click
        return cls.from_object(
            decision,
            matched=decision.is_match,
            destination_path=link.destination_path if link else None,
            link=link,
            utm=UtmRecord.from_utm(decision.utm) if link else None,
            clicked_at=click.clicked_at_ms if link and click else None,
            visitor_id=visitor_id,
        )


class MatchesQuery(PageQuery):
    website_id: str | None = None
    """Only this app."""


class MatchRecord(Record):
    """An open that involved a link. An ambiguous open has one record for each link."""

    id: str
    at: Iso
    website_id: str
    link: MatchedLinkRecord | None
    """null if the open did not involve a link."""
    matched: bool
    method: Method | None
    confidence: float | None
    reason: Reason | None
    platform: str
    os_version: str | None
    app_version: str | None
    first_open: bool
    clicked_at: Iso | None
    install_id: str | None
    """null once the visitor is deleted."""
    visitor_id: str | None
    """As the app sent it; null once the visitor is deleted."""


class TouchesQuery(Query):
    website_id: str
    visitor_id: Annotated[str, AfterValidator(without_nul)]
    """Any ID of the visitor."""


class TouchRecord(Record):
    at: Iso
    link_id: str
    utm: UtmRecord


class TouchesRecord(Record):
    """The visitor's touches. Both are null if no link led the visitor to the app."""

    visitor_id: str
    """The canonical visitor."""
    first_touch: TouchRecord | None
    last_touch: TouchRecord | None
