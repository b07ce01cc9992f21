"""What an app tells when it opens, and what it is answered; the audit of it."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field

from penstock.base.clock import iso, iso_or_none
from penstock.events.fields import EventName, SentId, Text
from penstock.http.schema import Input, PageQuery, Query, Record, RuleBroken
from penstock.identity.model import is_placeholder
from penstock.links.agents import Platform
from penstock.links.matches import Listed, Touch, Touches
from penstock.links.resolving import Decision, Method, Reason


def _install(value: str) -> str:
    if is_placeholder(value):
        raise RuleBroken(
            "stands_for_nobody", "This is a placeholder; make a random ID when the app starts for the first time, and keep it."
        )
    return value


Version = EventName
"""1 to 200 characters."""


class AppOpen(Input):
    """An open of the app. Its validation context is a `Bounds`."""

    website_id: SentId
    install_id: Annotated[SentId, AfterValidator(_install), Field(description="A random ID that the app made at its first start.")]
    visitor_id: Annotated[SentId | None, Field(description="Who it is, when the app tracks visitors already.")] = None
    platform: Literal[Platform.IOS, Platform.ANDROID]
    os_version: Version | None = None
    app_version: Version | None = None
    first_open: bool
    url: Annotated[Text | None, Field(description="The address that the app was opened with.")] = None
    install_referrer: Annotated[Text | None, Field(description="What Google Play's install referrer says, as it says it.")] = None
    click_token: Annotated[Text | None, Field(description="The `ct` of the landing page, when the app has it in another way.")] = None
    dedupe_key: Annotated[SentId | None, Field(description="The same for retries of one open.")] = None

    @property
    def hands_over(self) -> bool:
        """Whether there is anything that names a link or a click."""
        return any((self.url, self.install_referrer, self.click_token))


class UtmRecord(Record):
    source: str | None
    medium: str | None
    campaign: str | None


class MatchedLinkRecord(Record):
    id: str
    slug: str


class ResolvedRecord(Record):
    """Without a match, `reason` says why, and the link's fields are null."""

    matched: bool
    method: Annotated[Method | None, Field(description="What led to a link or a click, also to one that was refused.")]
    confidence: Annotated[float | None, Field(description="1 when it is certain; at most 0.7 for a match by network.")]
    destination_path: Annotated[str | None, Field(description="Where in the app the link leads.")]
    link: MatchedLinkRecord | None
    utm: UtmRecord | None
    clicked_at: Annotated[str | None, Field(description="null also for a match by an address that names no click.")]
    visitor_id: Annotated[str, Field(description="The canonical visitor, to be used from now on.")]
    reason: Reason | None

    @classmethod
    def of(cls, decision: Decision, visitor_id: str) -> Self:
        link, utm = decision.link, decision.utm
        names = ("utm_source", "utm_medium", "utm_campaign")
        return cls(
            matched=decision.matched,
            method=decision.method,
            confidence=decision.confidence,
            destination_path=link.destination_path if link else None,
            link=MatchedLinkRecord(id=link.id, slug=link.slug) if link else None,
            utm=UtmRecord(**{name.removeprefix("utm_"): utm.get(name) for name in names}) if link else None,
            clicked_at=iso(decision.click.clicked_at_ms) if link and decision.click else None,
            visitor_id=visitor_id,
            reason=decision.reason,
        )


class MatchesQuery(PageQuery):
    website_id: Annotated[str | None, Field(description="Only of this app.")] = None


class MatchRecord(Record):
    """A resolve, as far as it concerns one link; one that found two concerns both."""

    id: str
    at: str
    website_id: str
    link: Annotated[MatchedLinkRecord | None, Field(description="null: no link was concerned.")]
    matched: bool
    method: Method | None
    confidence: float | None
    reason: Reason | None
    platform: str
    os_version: str | None
    app_version: str | None
    first_open: bool
    clicked_at: str | None
    install_id: Annotated[str | None, Field(description="null once the visitor was deleted.")]
    visitor_id: Annotated[str | None, Field(description="As the app named it; null once the visitor was deleted.")]

    @classmethod
    def of(cls, listed: Listed) -> Self:
        match, slug = listed
        return cls(
            id=match.id,
            at=iso(match.at_ms),
            website_id=match.website_id,
            link=MatchedLinkRecord(id=match.link_id, slug=slug) if match.link_id and slug else None,
            matched=match.matched,
            method=match.method,
            confidence=match.confidence,
            reason=match.reason,
            platform=match.platform,
            os_version=match.os_version,
            app_version=match.app_version,
            first_open=match.first_open,
            clicked_at=iso_or_none(match.clicked_at_ms),
            install_id=match.install_id,
            visitor_id=match.visitor_id,
        )


class AttributionQuery(Query):
    website_id: str
    visitor_id: Annotated[str, Field(description="Any ID of the visitor.")]


class TouchRecord(Record):
    at: str
    link_id: str
    utm: UtmRecord

    @classmethod
    def of(cls, touch: Touch) -> Self:
        utm = UtmRecord(source=touch.utm_source, medium=touch.utm_medium, campaign=touch.utm_campaign)
        return cls(at=iso(touch.at_ms), link_id=touch.link_id, utm=utm)


class AttributionRecord(Record):
    """Both are null for a visitor whom no link led here."""

    visitor_id: Annotated[str, Field(description="The canonical visitor.")]
    first_touch: TouchRecord | None
    last_touch: TouchRecord | None

    @classmethod
    def of(cls, touches: Touches) -> Self:
        first, last = (TouchRecord.of(touch) if touch else None for touch in (touches.first, touches.last))
        return cls(visitor_id=touches.visitor_id, first_touch=first, last_touch=last)
