"""Wire types for managed links."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from penstock.base.errors import Fault
from penstock.http.period import AS_TIME, read_time_ms
from penstock.http.schema import (
    Input,
    Iso,
    Line,
    Name,
    Omittable,
    PageQuery,
    Query,
    Record,
    RuleBroken,
    without_controls,
    without_hidden_text,
)
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
"""Reserved slugs: paths of the service, and words that programs write for missing values."""


def _slug(value: str) -> str:
    if not SLUG.fullmatch(value):
        raise RuleBroken("not_a_slug", SLUG_RULE)
    if value in RESERVED_SLUGS:
        raise RuleBroken("reserved_slug", "This slug is reserved; choose another.")
    return value


def _tag(value: str) -> str:
    tag = value.strip().lower()
    if not tag or "," in tag:
        raise RuleBroken("not_a_tag", "Must not be empty or contain a comma.")
    return tag


Utm = Annotated[Line, AfterValidator(lambda value: value or None)]
LinkName = Annotated[
    Name, Field(description="Internal label, never shown to people who open the link.")
]
Slug = Annotated[
    str,
    AfterValidator(_slug),
    Field(
        description="The part of the URL after /l/; unique in the installation.",
        json_schema_extra={"pattern": f"^(?:{SLUG.pattern})$"},
    ),
]
DestinationPath = Annotated[
    str,
    AfterValidator(destination_path),
    Field(
        description="Route inside the app, such as /products/1.",
        json_schema_extra={"pattern": "^/"},
    ),
]
Tag = Annotated[
    str,
    Field(max_length=50),
    AfterValidator(without_controls),
    AfterValidator(without_hidden_text),
    AfterValidator(_tag),
]
Tags = Annotated[
    list[Tag],
    Field(max_length=20, description="Stored in lower case."),
]
PASS_QUERY = Field(
    description="Whether the fallback URL gets the visit's query and the link's UTM parameters."
)
_IS_ACTIVE = Field(description="false disables the link, true enables it again.")
_IS_ARCHIVED = Field(description="Archived links are hidden from lists but keep working.")
WireTime = Annotated[int, BeforeValidator(read_time_ms), AS_TIME]


class _LinkFields(Input):
    """Fields that may be null. The Pydantic validation context is `WebUrlRules`."""

    fallback_url: str | None = None
    """Web page for people who cannot open the app."""
    utm_source: Utm | None = None
    utm_medium: Utm | None = None
    utm_campaign: Utm | None = None
    expires_at: WireTime | None = None
    """Time from which the link leads to `expiredUrl`."""
    expired_url: str | None = None
    """Web page that an expired link leads to; null means a not-found page."""

    @field_validator("fallback_url", "expired_url")
    @classmethod
    def _is_web_url(cls, value: str | None, info: ValidationInfo) -> str | None:
        assert isinstance(info.context, WebUrlRules)
        return None if value is None else web_url(value, info.context)

    def values(self) -> dict[str, Any]:
        """Return the fields that were sent, by their names in `Link`, without IDs."""
        sent = {name: getattr(self, name) for name in self.model_fields_set - {"id", "website_id"}}
        if "expires_at" in sent:
            sent["expires_at_ms"] = sent.pop("expires_at")
        if "tags" in sent:
            sent["tags"] = tuple(sorted(set(sent["tags"])))
        return sent


class NewLink(_LinkFields):
    website_id: str
    """A website of kind mobile."""
    name: LinkName
    slug: Slug
    destination_path: DestinationPath
    tags: Annotated[Tags, Field(default_factory=list)]
    pass_query: Annotated[bool, PASS_QUERY] = False
    is_active: Annotated[bool, _IS_ACTIVE] = True
    is_archived: Annotated[bool, _IS_ARCHIVED] = False


class LinkChange(_LinkFields):
    """Changes to a link. Omitted fields keep their value; null clears a field. App and slug are
    fixed.
    """

    id: str
    name: Omittable[LinkName] = None
    destination_path: Omittable[DestinationPath] = None
    tags: Omittable[Tags] = None
    pass_query: Annotated[Omittable[bool], PASS_QUERY] = None
    is_active: Annotated[Omittable[bool], _IS_ACTIVE] = None
    is_archived: Annotated[Omittable[bool], _IS_ARCHIVED] = None


class LinkRow(_LinkFields):
    """A row of a CSV file: a new link, or changes to the link with this slug."""

    id: str | None = None
    website_id: str | None = None
    slug: Slug
    name: LinkName | None = None
    destination_path: DestinationPath | None = None
    tags: Tags | None = None
    pass_query: bool | None = None
    is_active: bool | None = None
    is_archived: bool | None = None

    def values(self) -> dict[str, Any]:
        return {name: value for name, value in super().values().items() if name != "slug"}


class CsvQuery(Query):
    """Query parameters for uploading links as CSV."""

    dry_run: bool = False
    """`true` returns the changes that would be made, without making them."""


class RowFaultRecord(Record):
    row: int
    """Row number, as in a spreadsheet: the header is row 1."""
    column: str
    code: str
    message: str

    @classmethod
    def from_fault(cls, row: int, fault: Fault) -> Self:
        return cls.from_object(fault, row=row, column=fault.field)


class LinkUploadRecord(Record):
    """The result or preview of uploading a CSV file of links. Counts are numbers of rows."""

    dry_run: bool
    created: int
    updated: int
    unchanged: int
    faulty: int
    faults: list[RowFaultRecord]
    """The first 1,000 errors."""


class LinkFilter(Query):
    """Query parameters for selecting the workspace's links."""

    website_id: str | None = None
    """Only links of this app."""
    search: Line = ""
    """Part of the name, the slug or a tag, regardless of case."""
    state: LinkState | None = None
    """Only links in this state; by default, all links that are not archived."""
    tag: Tag | None = None
    """Only links with this tag."""


class LinkQuery(LinkFilter, PageQuery):
    pass


class LinkRecord(Record):
    id: str
    website_id: str
    name: str
    slug: str
    destination_path: str
    fallback_url: str | None
    """As stored: in ASCII, with international host names in Punycode."""
    utm_source: str | None
    utm_medium: str | None
    utm_campaign: str | None
    expires_at: Iso | None
    expired_url: str | None
    """As stored, like `fallbackUrl`."""
    tags: tuple[str, ...]
    pass_query: Annotated[bool, PASS_QUERY]
    hosted_url: str
    """The address to share. Do not change it."""
    is_active: bool
    is_archived: bool
    revision: int
    """Starts at 1. Each change of name, destination, fallback, UTM parameters or expiry adds 1."""
    created_at: Iso
    updated_at: Iso
    unstored_clicks: int
    """Clicks beyond PENSTOCK_CLICKS_PER_MINUTE. They are only counted here."""
    stats: TotalsRecord | None
    """Totals over all time; null while the event store is unavailable."""

    @classmethod
    def from_link(cls, link: Link, base_url: str, stats: TotalsRecord | None) -> Self:
        return cls.from_object(link, hosted_url=link.hosted_url(base_url), stats=stats)


class LinkRevisionRecord(Record):
    """The link as it was from `at` until the next revision."""

    revision: int
    at: Iso
    name: str
    destination_path: str
    fallback_url: str | None
    utm_source: str | None
    utm_medium: str | None
    utm_campaign: str | None
    expires_at: Iso | None
    expired_url: str | None


class QrQuery(Query):
    """Query parameters for a QR code."""

    format: Literal["svg", "png"] = "svg"
    """File format."""
    scale: Annotated[int, Field(ge=1, le=40)] = 8
    """Pixels of one module, the smallest square; 1 to 40."""
