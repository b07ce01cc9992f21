"""What goes over the wire: inputs with their rules, answers."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from penstock.base.clock import iso
from penstock.http.schema import Input, Line, Name, Record, RecordsQuery, RuleBroken
from penstock.links.addresses import WebRules, destination_path, web_address
from penstock.links.model import Link, LinkState
from penstock.links.stats_schema import TotalsRecord

SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
SLUG_RULE = "Must be 1 to 64 lower-case letters a-z, digits and hyphens, with a letter or digit at both ends, as spring-sale."
RESERVED_SLUGS = frozenset(
    (
        "admin", "api", "apple-app-site-association", "assetlinks", "assets", "docs", "false", "favicon", "health", "index", "l", "login",
        "logout", "none", "null", "robots", "settings", "signup", "sitemap", "static", "true", "undefined", "well-known", "www",
    )
)  # fmt: skip
"""Words that stand for parts of a service, now or later, and what programs write where a value is missing."""


def _slug(value: str) -> str:
    if not SLUG.fullmatch(value):
        raise RuleBroken("not_a_slug", SLUG_RULE)
    if value in RESERVED_SLUGS:
        raise RuleBroken("reserved_slug", "This word is reserved; choose another.")
    return value


Utm = Annotated[Line, AfterValidator(lambda value: value or None)]


class NewLink(Input):
    """The context of its validation is a `WebRules`."""

    website_id: Annotated[str, Field(description="A website of kind mobile.")]
    name: Annotated[Name, Field(description="Internal label, never shown to those who open the link.")]
    slug: Annotated[str, AfterValidator(_slug), Field(description="The end of the public address; unique in the installation.")]
    destination_path: Annotated[str, AfterValidator(destination_path), Field(description="Route inside the app, as /products/1.")]
    fallback_url: Annotated[str | None, Field(description="Web page for those who cannot open the app.")] = None
    utm_source: Utm | None = None
    utm_medium: Utm | None = None
    utm_campaign: Utm | None = None

    @field_validator("fallback_url")
    @classmethod
    def _leads_to_the_web(cls, value: str | None, info: ValidationInfo) -> str | None:
        assert isinstance(info.context, WebRules)
        return None if value is None else web_address(value, info.context)


class LinkChange(Input):
    id: str
    is_active: Annotated[bool, Field(description="false disables the link, true enables it again.")]


class LinkQuery(RecordsQuery):
    search: Annotated[Line, Field(description="A part of the name or the slug, in any letter case.")] = ""
    state: Annotated[LinkState | None, Field(description="Only links that are in use, or only those that are disabled.")] = None


class LinkRecord(Record):
    id: str
    website_id: str
    name: str
    slug: str
    destination_path: str
    fallback_url: Annotated[str | None, Field(description="As stored: in ASCII, an international host in the spelling of the DNS.")]
    utm_source: str | None
    utm_medium: str | None
    utm_campaign: str | None
    hosted_url: Annotated[str, Field(description="The address to share, unchanged.")]
    is_active: bool
    created_at: str
    updated_at: str
    stats: Annotated[TotalsRecord | None, Field(description="Of all time; null while the event store does not answer.")]

    @classmethod
    def of(cls, link: Link, base_url: str, stats: TotalsRecord | None) -> Self:
        return cls(
            id=link.id,
            website_id=link.website_id,
            name=link.name,
            slug=link.slug,
            destination_path=link.destination_path,
            fallback_url=link.fallback_url,
            utm_source=link.utm_source,
            utm_medium=link.utm_medium,
            utm_campaign=link.utm_campaign,
            hosted_url=link.hosted_url(base_url),
            is_active=link.is_active,
            created_at=iso(link.created_at_ms),
            updated_at=iso(link.updated_at_ms),
            stats=stats,
        )
