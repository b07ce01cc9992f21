"""Wire types for the catalogue."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from penstock.base.scalar import Scalar
from penstock.funnels.definitions.filters import EventField
from penstock.http.schema import Record, RecordsQuery, without_nul

_MAX_NAME_CHARS = 2000
"""Maximum number of characters in a name. The longest names are paths."""


Kind = Literal["pageview", "screenview", "event", "transaction"]
"""The kind of event that a name belongs to."""

PropertyType = Literal["string", "number", "boolean", "object"]
"""The JSON type of a value; `object` includes arrays."""


EventName = Annotated[
    str, Field(min_length=1, max_length=_MAX_NAME_CHARS), AfterValidator(without_nul)
]
Search = Annotated[str, Field(max_length=_MAX_NAME_CHARS), AfterValidator(without_nul)]


class NamesQuery(RecordsQuery):
    """Query parameters for listing names. The queries for the other lists extend this class."""

    kind: Kind | None = None
    """Only events of this kind."""
    search: Search = ""
    """Only entries that contain this text, regardless of case."""


class PropertiesQuery(NamesQuery):
    """Query parameters for listing properties."""

    event: EventName | None = None
    """Only events with this name. A path selects all page views."""


class ValuesQuery(PropertiesQuery):
    """Query parameters for listing values."""

    property: EventField
    """A property, the `$` name of a built-in field, or `$trait.` and a name."""


class NameRecord(Record):
    """A name of accepted events."""

    name: str
    """A page path, screen, event name or transaction event."""
    kind: Kind
    count: int
    """Number of events of this kind and name."""
    last_seen_at: str
    """When the latest of these events occurred."""


class TypeRecord(Record):
    type: PropertyType
    count: int
    """Number of events with a value of this type."""
    last_seen_at: str | None


class PropertyRecord(Record):
    """A property of accepted events."""

    property: str
    builtin: bool
    """Whether it is a built-in event field."""
    count: int
    """Number of events with this property; for a trait, the number of visitors. Null values do not
    count.
    """
    last_seen_at: str | None
    """When the latest of these events occurred; null for a trait."""
    types: list[TypeRecord]
    """Most frequent first."""
    distinct_values: int | None
    """Number of different values, up to 100 of each type; null without `event`."""


class ValueRecord(Record):
    """A value of a property, with its JSON type."""

    value: Scalar
    count: int
    """Number of events with this value; a lower bound if the list is incomplete."""


class ValuesRecord(Record):
    """A page of the most frequent values of a property."""

    data: list[ValueRecord]
    page: int
    page_size: int
    total: int
    """Number of values that match the search."""
    complete: bool
    """Whether the unsearched list contains every scalar value. If not, it contains the most
    frequent values.
    """
