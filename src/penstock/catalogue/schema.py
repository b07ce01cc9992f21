"""What goes over the wire for the catalogue: what is asked, what is answered."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from penstock.base.scalar import Scalar
from penstock.funnels.definitions.filters import EventField
from penstock.http.schema import Record, RecordsQuery, without_nul

_LONGEST_NAME = 2000
"""The longest path, the longest of all names."""


Kind = Literal["pageview", "screenview", "event", "transaction"]
"""What a name is the name of: a page's path, a screen, an event, a transaction event."""

PropertyType = Literal["string", "number", "boolean", "object"]
"""The JSON type of a property; `object` stands for arrays as well."""


SeenName = Annotated[str, Field(min_length=1, max_length=_LONGEST_NAME), AfterValidator(without_nul)]
Search = Annotated[str, Field(max_length=_LONGEST_NAME), AfterValidator(without_nul)]


class NamesQuery(RecordsQuery):
    """The query parameters of the list of names, which those of the other lists add to."""

    kind: Annotated[Kind | None, Field(description="Only what events of this kind have.")] = None
    search: Annotated[Search, Field(description="Only what contains this text; case does not count.")] = ""


class PropertiesQuery(NamesQuery):
    """The query parameters of the list of properties."""

    event: Annotated[SeenName | None, Field(description="Only what events of this name have. A path stands for all page views.")] = None


class ValuesQuery(PropertiesQuery):
    """The query parameters of the list of values."""

    property: Annotated[EventField, Field(description="A property, or the `$` name of a built-in field.")]


class NameRecord(Record):
    """A name of events that were taken in."""

    name: Annotated[str, Field(description="A page's path, a screen, an event name or a transaction event.")]
    kind: Kind
    count: Annotated[int, Field(description="Events of this kind and name.")]
    last_seen_at: Annotated[str, Field(description="When the latest of them occurred.")]


class TypeRecord(Record):
    type: PropertyType
    count: Annotated[int, Field(description="Events whose value is of this type.")]
    last_seen_at: str


class PropertyRecord(Record):
    """A property of events that were taken in."""

    property: str
    builtin: Annotated[bool, Field(description="Whether it is one of Penstock's own event fields.")]
    count: Annotated[int, Field(description="Events that carry it; null does not count.")]
    last_seen_at: Annotated[str, Field(description="When the latest of them occurred.")]
    types: Annotated[list[TypeRecord], Field(description="The commonest first.")]


class ValueRecord(Record):
    """A value of a property, with its JSON type."""

    value: Scalar
    count: Annotated[int, Field(description="Events with this value; at least so many where the list is not complete.")]


class ValuesRecord(Record):
    """A page of the commonest values of a property."""

    data: list[ValueRecord]
    page: int
    page_size: int
    total: Annotated[int, Field(description="Values that contain what is searched for.")]
    complete: Annotated[
        bool,
        Field(description="Whether every scalar value ever seen is listed, before the search. If not, these are the commonest."),
    ]
