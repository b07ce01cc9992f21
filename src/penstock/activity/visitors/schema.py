"""Wire types for visitors."""

from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator

from penstock.activity.schema import Kind, StoredEventRecord, Text
from penstock.http.schema import Iso, PageQuery, Query, Record, RuleBroken


class WebsiteQuery(Query):
    website_id: str | None = None
    """Required if several websites have a visitor with this ID."""


class TimelineQuery(WebsiteQuery, PageQuery):
    pass


class VisitorsQuery(PageQuery):
    """Query parameters for the list of visitors."""

    website_id: str | None = None
    """Only visitors of this website."""
    search: Text | None = None
    """A complete visitor ID, which may be a merged one, or a complete user ID. If no ID is exactly
    this text: visitors with an ID that contains it, regardless of case, among those active in the
    last `days`.
    """
    country: Annotated[str | None, Field(pattern="^[A-Za-z]{2}$")] = None
    """Only visitors with an event from this country: ISO 3166-1, two letters."""
    device: Text | None = None
    """Only visitors with an event from this device, such as mobile."""
    event: Text | None = None
    """Only visitors with an event of this name; page views by path."""
    trait: Text | None = None
    """Only visitors whose user has this trait, such as plan."""
    trait_value: Text | None = None
    """Only visitors whose `trait` has this value, compared as text: pro, 5, true. Requires `trait`.
    """
    days: Annotated[int, Field(ge=1, le=400)] = 30
    """Only visitors active in the last this many days, unless `search` is exactly one of their IDs.
    """

    @field_validator("trait_value")
    @classmethod
    def _needs_trait(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("trait", "") is None:
            raise RuleBroken("required", "Also send the name of the trait as `trait`.", "trait")
        return value


class VisitorRecord(Record):
    """A visitor in a list. Visitors known only from identify calls have no events and no times."""

    visitor_id: str
    user_id: str | None
    person: str | None
    """The user's name: the trait that the workspace chose, or the user ID. null without a user."""
    website_id: str | None
    """Website of the visitor's last event."""
    events: int
    first_event_at: Iso | None
    last_event_at: Iso | None
    last_event_kind: Kind | None
    last_event_name: str | None
    """Name of the last event; of a page view, its path."""
    country: str | None
    """Country of the last event with a country: ISO 3166-1, two letters."""
    device: str | None
    """Device of the last event with a device, such as mobile."""


class LinkedUserRecord(Record):
    user_id: str
    traits: dict[str, Any] | None
    """The current traits. Null for a key for one website that shares its visitors with others."""
    since: Iso
    """When the visitor was linked to the user."""


class MergeRecord(Record):
    visitor_id: str
    """The visitor that was merged into this visitor."""
    user_id: str
    merged_at: Iso


MAX_LISTED_MERGES = 1_000
"""Maximum number of merges listed in a visitor's record. The record also contains the total."""


class VisitorDetailRecord(VisitorRecord):
    """One visitor. Times and counts cover all its IDs on all websites that share visitors."""

    ids: Annotated[
        list[str],
        Field(
            description="The canonical ID (visitorId), then the merged IDs: at most the first "
            f"{MAX_LISTED_MERGES:,}, as in merges.",
            max_length=1 + MAX_LISTED_MERGES,
        ),
    ]
    known_since: Iso
    """When the canonical ID first appeared."""
    user: LinkedUserRecord | None
    merges: Annotated[
        list[MergeRecord],
        Field(
            description=f"Oldest first; at most the first {MAX_LISTED_MERGES:,}.",
            max_length=MAX_LISTED_MERGES,
        ),
    ]
    merged_visitors: int
    """Number of visitors that were merged into this visitor."""
    pageviews: int
    screenviews: int
    transactions: int
    last_event: StoredEventRecord | None
