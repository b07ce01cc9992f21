"""Wire types for the content of rows, and for the mapping of a table's columns."""

from collections import Counter
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from msgspec import Meta
from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    RootModel,
    ValidationInfo,
    field_validator,
    model_validator,
)

from penstock.base.errors import Fault
from penstock.base.event_limits import MAX_NAME_CHARS, MAX_PATH_CHARS, MAX_PROPERTY_KEYS
from penstock.events.fields import (
    Currency,
    EventName,
    Number,
    PastTimestamp,
    Plain,
    PlainId,
    Properties,
    SentId,
    Text,
    Timestamp,
    valid_text,
)
from penstock.events.properties import RESERVED_PREFIX
from penstock.events.schema import TrackedItem
from penstock.http.period import known_timezone
from penstock.http.schema import Input, RuleBroken, RulesBroken, without_controls

IDENTIFY = "identify"
_MAX_VISITORS = 100


def _few(visitor_ids: list[str]) -> list[str]:
    if len(visitor_ids) > _MAX_VISITORS:
        raise RuleBroken("too_many", f"A line may have at most {_MAX_VISITORS} visitor IDs.")
    return visitor_ids


VisitorIds = Annotated[
    list[SentId],
    AfterValidator(_few),
    Plain(Annotated[list[PlainId], Meta(max_length=_MAX_VISITORS)]),
]


class ImportLine(TrackedItem):
    """A past event of a visitor (`visitorId`) or a user (`userId`)."""

    timestamp: PastTimestamp
    """When the event happened, no matter how long ago."""
    visitor_id: SentId | None = None
    user_id: SentId | None = None
    visitor_ids: VisitorIds | None = None
    """More visitors who are this user. They are linked before the event is stored. Needs `userId`.
    """
    external_session_id: SentId | None = None
    dedupe_key: SentId | None = None
    """Identifies repeats. Without it, transactionId or else the line's content identifies them."""
    country: EventName | None = None
    region: EventName | None = None
    device: EventName | None = None
    os: EventName | None = None
    browser: EventName | None = None
    transaction_id: SentId | None = None
    amount: Number | None = None
    currency: Currency | None = None


class IdentifyLine(Input):
    """Links visitors to a user, without an event."""

    type: Literal["identify"]
    user_id: SentId
    visitor_ids: VisitorIds | None = None
    """The visitors who are this user."""
    timestamp: PastTimestamp | None = None
    """When the traits were stated. Default: when the line is imported."""
    traits: Properties | None = None
    """Traits of the user. Other traits stay; null removes."""
    traits_once: Properties | None = None
    """Traits that the user gets only if nothing else states them."""


class ImportedLine(RootModel[ImportLine | IdentifyLine]):
    """A line of an import: an event, or IDs of a user."""


STORED = "stored"


def _short_path(path: str) -> str:
    return valid_text(path, MAX_PATH_CHARS)


class StoredLine(Input):
    """An event as another Penstock stored it. Only `penstock import --from penstock` sends it, with
    a key that has the permission manage.
    """

    type: Literal["stored"]
    kind: Literal["pageview", "screenview", "event", "transaction", "provider"]
    name: str
    source: Literal["server", "browser", "app", "import", "provider"]
    event_id: SentId
    client_event_id: Text | None = None
    occurred_at: PastTimestamp
    stated_at: Timestamp
    received_at: PastTimestamp
    visitor_id: SentId
    user_id: SentId | None = None
    verified: bool = False
    session_id: SentId | None = None
    external_session_id: SentId | None = None
    path: Annotated[str, AfterValidator(_short_path)] | None = None
    url: Text | None = None
    title: Text | None = None
    referrer: Text | None = None
    referrer_host: Text | None = None
    country: EventName | None = None
    region: EventName | None = None
    device: EventName | None = None
    os: EventName | None = None
    browser: EventName | None = None
    utm_source: Text | None = None
    utm_medium: Text | None = None
    utm_campaign: Text | None = None
    utm_content: Text | None = None
    utm_term: Text | None = None
    link: EventName | None = None
    link_method: EventName | None = None
    properties: Properties | None = None

    @field_validator("name")
    @classmethod
    def _has_the_limits_of_its_kind(cls, name: str, info: ValidationInfo[Any]) -> str:
        is_path = info.data.get("kind") == "pageview"
        return valid_text(name, MAX_PATH_CHARS if is_path else MAX_NAME_CHARS)


# Mappings


class Use(StrEnum):
    """The use of a column. `field` is one of `FIELDS`; an attempt ID is a property too."""

    TIME = "time"
    VISITOR = "visitor"
    USER = "user"
    EVENT = "event"
    TYPE = "type"
    ATTEMPT = "attempt"
    PROPERTY = "property"
    PROPERTIES = "properties"
    FIELD = "field"
    IGNORED = "ignored"


class TimeUnit(StrEnum):
    """How a column writes times: as a number since 1970 in a unit, or as text."""

    SECONDS = "seconds"
    MILLISECONDS = "milliseconds"
    MICROSECONDS = "microseconds"
    TEXT = "text"


class ValueType(StrEnum):
    """The type of a property's values."""

    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    JSON = "json"


class DecimalMark(StrEnum):
    """The character before the fraction of a number in text. The other separates thousands."""

    POINT = "point"
    COMMA = "comma"


class OtherColumns(StrEnum):
    """The use of all columns that a mapping does not list."""

    PROPERTY = "property"
    IGNORED = "ignored"


EventType = Literal["pageview", "screenview", "event", "transaction"]
FIELDS = tuple(
    field.alias or name
    for name, field in ImportLine.model_fields.items()
    if name
    not in ("type", "name", "timestamp", "visitor_id", "user_id", "visitor_ids", "properties")
)
"""Fields of an event that a column of the use `field` can fill, under their names on the wire."""
MAX_COLUMNS, MAX_COLUMN_CHARS = 1_000, 500
MAX_EVENTS_OF_ROW, MAX_REPLACED = 20, 1_000
"""Maximum number of columns with the use `time`, and of replaced values or types in a column."""
_ONCE = (Use.VISITOR, Use.USER, Use.EVENT, Use.TYPE, Use.PROPERTIES)
_DIRECTIVES = frozenset("YymdBbHIMSfpzaAj%")
_NAMED = (Use.ATTEMPT, Use.PROPERTY, Use.FIELD)


def _time_format(text: str) -> str:
    """Validate a format of times. Only known directives are allowed, each at most once."""
    parts = text.replace("%%", "").split("%")[1:]
    names = [part[:1] for part in parts]
    for name in names:
        if name not in _DIRECTIVES or not name:
            message = f"%{name} is not allowed. Write the format like %d.%m.%Y %H:%M:%S."
            raise RuleBroken("not_a_time_format", message)
    has_day = "d" in names and not {"m", "b", "B"}.isdisjoint(names)
    if (
        len(set(names)) < len(names)
        or {"Y", "y"}.isdisjoint(names)
        or not (has_day or "j" in names)
    ):
        raise RuleBroken(
            "not_a_time_format",
            "The format must contain the year, the month and the day, and each part once, "
            "such as %d.%m.%Y %H:%M:%S.",
        )
    return text


class MappedColumn(Input):
    """A column of a table, and its use for the import."""

    model_config = ConfigDict(serialize_by_alias=True)

    column: Annotated[str, Field(max_length=MAX_COLUMN_CHARS), AfterValidator(without_controls)]
    """Name of the column, as in the first row of the file. In JSON lines, a path, such as
    `user.id`, `items[0].sku` or `params[key=page].value`.
    """
    use: Annotated[Use, Field(strict=False, description="What the column contains.")]
    unit: Annotated[TimeUnit | None, Field(strict=False)] = None
    """Unit of the use `time`. `text` is text, or a date type."""
    format: Annotated[str, Field(max_length=100), AfterValidator(_time_format)] | None = None
    """Format of a time with the unit `text`, such as `%d.%m.%Y %H:%M:%S`. Without it, the time is
    ISO 8601.
    """
    name: Annotated[
        Annotated[str, Field(min_length=1, max_length=200), AfterValidator(without_controls)]
        | None,
        Field(
            description="Name of the property, for the uses `attempt` and `property`; by default, "
            "the name of the column without `$`. For the use `field`, the field: "
            + ", ".join(f"`{name}`" for name in FIELDS)
            + "."
        ),
    ] = None
    type: Annotated[ValueType | None, Field(strict=False)] = None
    """Type of the values of a `property`; by default, the type in the file, which is text in CSV.
    """

    decimal: Annotated[DecimalMark | None, Field(strict=False)] = None
    """Decimal mark of numbers in text, for the type `number` and the field `amount`: `point`, as in
    1,234.50, or `comma`, as in 1.234,50. By default, `point`.
    """

    event: EventName | None = None
    """Name of the event that happened at this time, for the use `time`. Several columns can then
    have this use: a row becomes an event for each of its times, and a row without a time is
    skipped. Its `dedupeKey` gets the name as a suffix.
    """
    values: Annotated[dict[str, str] | None, Field(max_length=MAX_REPLACED)] = None
    """New values by those in the file, for the uses `event`, `type` and `property`. Other values
    stay.
    """
    types: Annotated[dict[str, EventType] | None, Field(max_length=MAX_REPLACED)] = None
    """Types of events by their name in the file, for the use `event`, such as `{"page_view":
    "pageview"}`. A page view needs a path or URL in another column, and a screen view a screen;
    otherwise, the row stays an ordinary event.
    """

    @property
    def has_numbers(self) -> bool:
        """Whether the values become numbers."""
        is_amount = self.use is Use.FIELD and self.name == "amount"
        return is_amount or (self.use is Use.PROPERTY and self.type is ValueType.NUMBER)

    @property
    def property_name(self) -> str:
        """The name of the property, for the uses `attempt` and `property`."""
        return self.name or self.column.lstrip(RESERVED_PREFIX) or self.column

    @model_validator(mode="after")
    def _has_fields_of_its_use(self) -> Self:
        faults = []
        if self.use is Use.TIME and self.unit is None:
            faults.append(Fault("unit", "required", "Choose the unit of the times."))
        if self.use is Use.FIELD and self.name not in FIELDS:
            faults.append(Fault("name", "not_one_of", f"Must be one of {', '.join(FIELDS)}."))
        for field, uses in (
            ("unit", (Use.TIME,)),
            ("format", (Use.TIME,)),
            ("name", _NAMED),
            ("type", (Use.PROPERTY,)),
            ("event", (Use.TIME,)),
            ("values", (Use.EVENT, Use.TYPE, Use.PROPERTY)),
            ("types", (Use.EVENT,)),
        ):
            if getattr(self, field) is not None and self.use not in uses:
                message = f"Only a column of the use {' or '.join(uses)} has this field."
                faults.append(Fault(field, "not_for_use", message))
        if self.format is not None and self.unit is not TimeUnit.TEXT:
            faults.append(Fault("format", "not_for_unit", "Only the unit text has a format."))
        if self.decimal is not None and not self.has_numbers:
            message = "Only numbers have a decimal mark. Choose the type number."
            faults.append(Fault("decimal", "not_for_type", message))
        if self.use in (Use.ATTEMPT, Use.PROPERTY):
            if self.property_name.startswith(RESERVED_PREFIX):
                message = "Names with $ are reserved for Penstock's own fields; use another name."
                faults.append(Fault("name", "reserved_property", message))
            elif not self.property_name:
                faults.append(Fault("name", "required", "Name the property."))
        if faults:
            raise RulesBroken(faults)
        return self


class ImportMapping(Input):
    """The uses of the columns of a table.

    This type also holds a guess, which may lack a use that an import needs. `CompleteMapping` does
    not.
    """

    model_config = ConfigDict(serialize_by_alias=True)

    columns: Annotated[list[MappedColumn], Field(max_length=MAX_COLUMNS)]
    """The columns, in any order."""
    event_name: EventName | None = None
    """Name of every event, if no column has the use `event`."""
    event_type: EventType = "event"
    """Type of every event whose row does not have a type."""
    timezone: Annotated[str, Field(max_length=64), AfterValidator(known_timezone)] = "UTC"
    """Time zone of times without an offset, such as `Europe/Berlin`."""
    other_columns: Annotated[OtherColumns | None, Field(strict=False)] = None
    """The use of all columns that are not listed. Without it, a file with such a column is
    rejected.
    """

    @model_validator(mode="after")
    def _names_each_thing_once(self) -> Self:
        faults = []
        columns = Counter(each.column for each in self.columns)
        uses = Counter(each.use for each in self.columns)
        names = Counter(
            (each.use is Use.FIELD, each.property_name)
            for each in self.columns
            if each.use in _NAMED
        )
        for number, each in enumerate(self.columns):
            at = f"columns[{number}]"
            if columns[each.column] > 1:
                faults.append(Fault(f"{at}.column", "repeated", "Each column is listed once."))
            if each.use is Use.TIME and uses[Use.TIME] > 1 and each.event is None:
                message = "Name the event of each time, because several columns have the use time."
                faults.append(Fault(f"{at}.event", "required", message))
            if each.use in _ONCE and uses[each.use] > 1:
                message = f"Only one column can have the use {each.use}."
                faults.append(Fault(f"{at}.use", "repeated", message))
            if each.use in _NAMED and names[each.use is Use.FIELD, each.property_name] > 1:
                message = f"Two columns have the name {each.property_name}; rename one of them."
                faults.append(Fault(f"{at}.name", "repeated", message))
        if sum(not is_field for is_field, _ in names) > MAX_PROPERTY_KEYS:
            message = f"An event may have at most {MAX_PROPERTY_KEYS} properties."
            faults.append(Fault("columns", "too_many_keys", message))
        if uses[Use.TIME] > MAX_EVENTS_OF_ROW:
            message = f"At most {MAX_EVENTS_OF_ROW} columns can have the use time."
            faults.append(Fault("columns", "too_many", message))
        if self.names_times and (uses[Use.EVENT] or self.event_name is not None):
            message = "The times have event names. Leave out other names of events."
            faults.append(Fault("eventName", "not_both", message))
        elif uses[Use.EVENT] and self.event_name is not None:
            message = "Leave the name out, or change the use of the column with event names."
            faults.append(Fault("eventName", "not_both", message))
        if faults:
            raise RulesBroken(faults)
        return self

    @property
    def names_times(self) -> bool:
        """Whether the times have event names, so that a row can have several events."""
        return any(each.event is not None for each in self.columns)

    @property
    def time_format(self) -> str | None:
        """The format of times; None for ISO 8601 and numbers."""
        return next((each.format for each in self.columns if each.use is Use.TIME), None)

    def with_time_format(self, time_format: str | None) -> Self:
        """Return the mapping with another format of times."""
        columns = [
            each.model_copy(update={"format": time_format})
            if each.use is Use.TIME and each.format == self.time_format
            else each
            for each in self.columns
        ]
        return self.model_copy(update={"columns": columns})

    def gaps(self) -> list[Fault]:
        """Return what an import still needs."""
        uses, faults = {each.use for each in self.columns}, []
        if Use.TIME not in uses:
            faults.append(
                Fault(
                    "columns",
                    "time_required",
                    "Choose the column with the time of the event (use: time).",
                )
            )
        if uses.isdisjoint((Use.VISITOR, Use.USER)):
            faults.append(
                Fault(
                    "columns",
                    "identity_required",
                    "Choose the column that identifies the person (use: visitor or user).",
                )
            )
        if (
            uses.isdisjoint((Use.EVENT, Use.TYPE))
            and self.event_name is None
            and not self.names_times
            and self.event_type in ("event", "transaction")
        ):
            faults.append(
                Fault(
                    "eventName",
                    "required",
                    "Choose the column with the event name (use: event), or enter one name for all "
                    "events (eventName).",
                )
            )
        return faults


class CompleteMapping(ImportMapping):
    """A mapping with everything that an import needs."""

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if faults := self.gaps():
            raise RulesBroken(faults)
        return self
