"""Wire types for recent events."""

from typing import Annotated

from pydantic import Field

from penstock.activity.schema import Kind, Source, StoredEventRecord, Text
from penstock.http.schema import Query, Record

MAX_EVENTS = 100
"""Maximum number of events in one response."""


class RecentQuery(Query):
    """Query parameters for listing recent events."""

    website_id: Annotated[str | None, Field(description="Only events of this website.")] = None
    kind: Annotated[Kind | None, Field(description="Only events of this kind.")] = None
    source: Annotated[Source | None, Field(description="Only events from this source.")] = None
    name: Annotated[
        Text | None, Field(description="Only events with this name; page views by path.")
    ] = None
    visitor_id: Annotated[
        Text | None, Field(description="Only events of this visitor, by any of its IDs.")
    ] = None
    property: Annotated[
        Text | None,
        Field(description="Only events with this property, such as an attempt ID. Requires value."),
    ] = None
    value: Annotated[
        Text | None, Field(description="Value of the property, as text. Requires property.")
    ] = None
    after: Annotated[
        str | None,
        Field(
            max_length=4000,
            description="Cursor from the previous response. Only newer events are returned.",
        ),
    ] = None
    limit: Annotated[
        int, Field(ge=1, le=MAX_EVENTS, description=f"Maximum number of events, 1 to {MAX_EVENTS}.")
    ] = 50


class RecentRecord(Record):
    """Recent events, newest first."""

    data: list[StoredEventRecord]
    cursor: Annotated[str, Field(description="Pass it as `after` to get only newer events.")]
    skipped: Annotated[
        bool,
        Field(
            description="Whether more events arrived than `limit` allows. Later responses omit "
            "the rest."
        ),
    ]
    lost_on_devices: Annotated[
        int,
        Field(
            description="Events that clients of the websites dropped because their queues were "
            "full, as they reported today and yesterday (UTC)."
        ),
    ]
