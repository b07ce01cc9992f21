"""What goes over the wire about visitors and events."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field

from penstock.base.clock import iso
from penstock.http.schema import PageQuery, Query, Record, RuleBroken

Kind = Literal["pageview", "screenview", "event", "transaction", "provider"]
Source = Literal["server", "browser", "app", "import", "provider"]

MAX_EVENTS = 100
"""Most events of one look at what came in last."""


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise RuleBroken("nul_character", "Must not contain the NUL character.")
    return text


Text = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(_without_nul)]


class WebsiteQuery(Query):
    website_id: Annotated[str | None, Field(description="Needed where one visitor ID stands for visitors of several websites.")] = None


class TimelineQuery(PageQuery):
    website_id: Annotated[str | None, Field(description="Needed where one visitor ID stands for visitors of several websites.")] = None


class VisitorsQuery(PageQuery):
    """The query parameters of the list of visitors."""

    website_id: Annotated[str | None, Field(description="Only visitors of this website.")] = None
    search: Annotated[Text | None, Field(description="A visitor ID, also an absorbed one, or a user ID; exactly.")] = None
    days: Annotated[int, Field(ge=1, le=400, description="Without a search: only visitors with events in the last so many days.")] = 30


class RecentQuery(Query):
    """The query parameters of what came in last."""

    website_id: Annotated[str | None, Field(description="Only events of this website.")] = None
    kind: Annotated[Kind | None, Field(description="Only events of this kind.")] = None
    source: Annotated[Source | None, Field(description="Only events that this source told.")] = None
    name: Annotated[Text | None, Field(description="Only events of this name; of a page view, its path.")] = None
    visitor_id: Annotated[Text | None, Field(description="Only events of this visitor; any of its IDs.")] = None
    property: Annotated[Text | None, Field(description="Only events with this property, as an attempt ID. Needs value.")] = None
    value: Annotated[Text | None, Field(description="The property's value, as text. Needs property.")] = None
    after: Annotated[str | None, Field(max_length=4000, description="The cursor of the answer before: only what came in since.")] = None
    limit: Annotated[int, Field(ge=1, le=MAX_EVENTS, description=f"Most events, 1 to {MAX_EVENTS}.")] = 50


class StoredEventRecord(Record):
    """An event as it is stored. A field that it does not have is null."""

    event_id: str
    website_id: str
    kind: Kind
    name: str
    source: Source
    occurred_at: str
    received_at: str
    stated_at: Annotated[str, Field(description="The time that the sender gave; another one where its clock was corrected.")]
    visitor_id: Annotated[str, Field(description="As the event was stored with; maybe absorbed since.")]
    user_id: str | None
    session_id: str | None
    external_session_id: str | None
    path: str | None
    url: str | None
    title: str | None
    referrer: str | None
    referrer_host: str | None
    country: str | None
    region: str | None
    device: str | None
    os: str | None
    browser: str | None
    utm_source: str | None
    utm_medium: str | None
    utm_campaign: str | None
    utm_content: str | None
    utm_term: str | None
    verified: Annotated[bool, Field(description="Of a provider's event: whether what the provider signed names the visitor.")]
    properties: dict[str, Any]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """row: of `visitor_events.sql` or `recent_events.sql`."""
        told = {name: value for name in cls.model_fields if (value := row.get(name)) is not None}
        told |= {name: told.get(name) or None for name, field in cls.model_fields.items() if field.annotation == (str | None)}
        times = {f"{name}_at": iso(row[f"{name}_ms"]) for name in ("occurred", "received", "stated")}
        return cls(**told | times | {"properties": json.loads(row["properties"] or "{}")})


class VisitorRecord(Record):
    """A visitor in a list. A visitor without events, known from an identify call alone, has no times."""

    visitor_id: str
    user_id: str | None
    website_id: Annotated[str | None, Field(description="Where its last event was.")]
    events: int
    first_event_at: str | None
    last_event_at: str | None


class UserRecord(Record):
    user_id: str
    traits: Annotated[dict[str, Any] | None, Field(description="What identify last said of the user.")]
    since: Annotated[str, Field(description="When the visitor was linked to the user.")]


class MergeRecord(Record):
    visitor_id: Annotated[str, Field(description="The visitor that was absorbed.")]
    user_id: str
    merged_at: str


class VisitorDetailRecord(VisitorRecord):
    """Everything about one visitor. The times and numbers are of all its IDs, on all websites that share their visitors."""

    ids: Annotated[list[str], Field(description="The canonical ID, which is visitorId, then all that were absorbed.")]
    known_since: Annotated[str, Field(description="When the canonical ID was first heard of.")]
    user: UserRecord | None
    merges: Annotated[list[MergeRecord], Field(description="Oldest first.")]
    pageviews: int
    screenviews: int
    transactions: int
    last_event: StoredEventRecord | None


class RecentRecord(Record):
    """What came in last, newest first."""

    data: list[StoredEventRecord]
    cursor: Annotated[str, Field(description="For `after`, to be given only what came in since.")]
    skipped: Annotated[bool, Field(description="Whether more came in than were asked for; those are not given later.")]
