"""Wire types for recent events."""

from typing import Annotated

from pydantic import Field

from penstock.activity.schema import Kind, Source, StoredEventRecord, Text
from penstock.http.schema import Query, Record

MAX_EVENTS = 100
"""Maximum number of events in one response."""


class RecentQuery(Query):
    """Query parameters for listing recent events."""

    website_id: str | None = None
    """Only events of this website."""
    kind: Kind | None = None
    """Only events of this kind."""
    source: Source | None = None
    """Only events from this source."""
    name: Text | None = None
    """Only events with this name; page views by path."""
    visitor_id: Text | None = None
    """Only events of this visitor, by any of its IDs."""
    property: Text | None = None
    """Only events with this property, such as an attempt ID. Requires value."""
    value: Text | None = None
    """Value of the property, as text. Requires property."""
    after: Annotated[str | None, Field(max_length=4000)] = None
    """Cursor from the previous response. Only newer events are returned."""
    limit: Annotated[
        int, Field(ge=1, le=MAX_EVENTS, description=f"Maximum number of events, 1 to {MAX_EVENTS}.")
    ] = 50


class RecentRecord(Record):
    """Recent events, newest first."""

    data: list[StoredEventRecord]
    cursor: str
    """Pass it as `after` to get only newer events."""
    skipped: bool
    """Whether more events arrived than `limit` allows. Later responses omit the rest."""
    lost_on_devices: int
    """Events that clients of the websites dropped because their queues were full, as they reported
    today and yesterday (UTC).
    """
