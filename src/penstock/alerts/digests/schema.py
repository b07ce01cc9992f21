"""Wire types for digests."""

from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from penstock.http.period import known_timezone
from penstock.http.schema import Input, Iso, Record

MAX_FUNNELS = 20
"""Maximum number of funnels in a digest."""

Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
WEEKDAYS: tuple[Weekday, ...] = get_args(Weekday)


class DigestIn(Input):
    """A subscription to the weekly digest."""

    weekday: Weekday
    hour: Annotated[int, Field(ge=0, le=23)]
    """Hour of the day in the time zone."""
    timezone: Annotated[str, Field(max_length=64), AfterValidator(known_timezone)]
    """Time zone of the hour and of the days in the figures, such as Europe/Berlin."""
    funnel_ids: Annotated[list[str] | None, Field(min_length=1, max_length=MAX_FUNNELS)] = None
    """IDs of funnels; null for the first 20 funnels of the workspace by name."""


class DigestRecord(Record):
    """Your subscription to the weekly digest."""

    subscribed: bool
    """If not, the other fields have the defaults of a new subscription."""
    weekday: Weekday
    hour: int
    timezone: str
    funnel_ids: list[str] | None
    """null: all funnels, at most 20."""
    next_at: Iso | None
    """When the next email is due."""
    last_sent_at: Iso | None
