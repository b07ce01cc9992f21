"""Wire types of managed links."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from penstock.base.clock import iso
from penstock.http.schema import Input, Line, Name, Query, Record, RecordsQuery, RuleBroken
from penstock.links.management.addresses import WebUrlRules, destination_path, web_url
from penstock.links.model import SLUG, Link, LinkState
from penstock.links.statistics.schema import TotalsRecord

SLUG_RULE = (
    "Must be 1 to 64 characters: lower-case letters a-z, digits and hyphens, with a letter or digit"
    " at both ends, such as spring-sale."
)
RESERVED_SLUGS = frozenset(
    (
        "admin", "api", "apple-app-site-association", "assetlinks", "assets", "docs", "false",
        "favicon", "health", "index", "l", "login", "logout", "none", "null", "robots", "settings",
        "signup", "sitemap", "static", "true", "undefined", "well-known", "www",
    )
)  # fmt: skip
"""Names of service paths, present or future, and what programs write for a missing value."""


def _slug(value: str) -> str:
    if not SLUG.fullmatch(value):
        raise RuleBroken("not_a_slug", SLUG_RULE)
    if value in RESERVED_SLUGS:
        raise RuleBroken("reserved_slug", "This slug is reserved; choose another.")
    return value


Utm = Annotated[Line, AfterValidator(lambda value: value or None)]


class NewLink(Input):
    """Its validation context is `WebUrlRules`."""

    website_id: Annotated[str, Field(description="A website of kind mobile.")]
    name: Annotated[
        Name, Field(description="Internal label, never shown to people who open the link.")
    ]
    slug: Annotated[
        str,
        AfterValidator(_slug),
        Field(
            description="End of the public address; unique in the installation.",
            json_schema_extra={"pattern": f"^(?:{SLUG.pattern})$"},
        ),
    ]
    destination_path: Annotated[
        str,
        AfterValidator(destination_path),
        Field(
            description="Route inside the app, such as /products/1.",
            json_schema_extra={"pattern": "^/"},
        ),
    ]
    fallback_url: Annotated[
        str | None, Field(description="Web page for people who cannot open the app.")
    ] = None
    utm_source: Utm | None = None
    utm_medium: Utm | None = None
    utm_campaign: Utm | None = None

    @field_validator("fallback_url")
    @classmethod
    def _is_web_url(cls, value: str | None, info: ValidationInfo) -> str | None:
        assert isinstance(info.context, WebUrlRules)
        return None if value is None else web_url(value, info.context)


class LinkChange(Input):
    id: str
    is_active: Annotated[bool, Field(description="false disables the link, true enables it again.")]


class LinkQuery(RecordsQuery):
    search: Annotated[
        Line, Field(description="Part of the name or the slug, in any letter case.")
    ] = ""
    state: Annotated[
        LinkState | None,
        Field(description="Only active links, or only disabled ones."),
    ] = None


class LinkRecord(Record):
    id: str
    website_id: str
    name: str
    slug: str
    destination_path: str
    fallback_url: Annotated[
        str | None,
        Field(description="As stored: in ASCII, an international host name in Punycode."),
    ]
    utm_source: str | None
    utm_medium: str | None
    utm_campaign: str | None
    hosted_url: Annotated[str, Field(description="The address to share, unchanged.")]
    is_active: bool
    created_at: str
    updated_at: str
    stats: Annotated[
        TotalsRecord | None,
        Field(description="Of all time; null while the event store is unavailable."),
    ]

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


class QrQuery(Query):
    """Query parameters of a QR code."""

    format: Annotated[Literal["svg", "png"], Field(description="File format.")] = "svg"
    scale: Annotated[
        int, Field(ge=1, le=40, description="Pixels of one module, the smallest square; 1 to 40.")
    ] = 8
