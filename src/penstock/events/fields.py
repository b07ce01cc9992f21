"""Types for the fields that clients send. The current time comes from `EventValidationContext`."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any, NamedTuple, cast

from msgspec import Meta
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
)

from penstock.accounts.keys.service import require_website_of_key
from penstock.accounts.model import Caller, Website
from penstock.accounts.websites.service import website_not_owned
from penstock.base.clock import (
    LATEST_MS,
    TimeOutOfRange,
    parse_time,
)
from penstock.base.event_limits import (
    FUTURE_TOLERANCE_S,
    MAX_EVENT_BYTES,
    MAX_ID_BYTES,
    MAX_NAME_CHARS,
    MAX_PATH_CHARS,
    MAX_PROPERTY_KEYS,
    MAX_STRING_BYTES,
)
from penstock.base.paths import page_path
from penstock.base.patterns import is_decimal
from penstock.base.unicode_text import composed
from penstock.events.properties import EXACT, HIGHEST_INTEGER, LOWEST_INTEGER, property_faults
from penstock.http.period import error_of_unit
from penstock.http.schema import RuleBroken, RulesBroken

FindWebsite = Callable[[str], Website | None]


class EventValidationContext(NamedTuple):
    """Pydantic's validation context for models with these fields.

    find_website: finds a website of any workspace, for senders without a key. caller: the owner of
    the sender's key, on routes where a key is optional; None if no key was sent. batch: an object
    that identifies the batch with the events; None for a single event.
    """

    now_ms: int
    find_website: FindWebsite = lambda _: None
    caller: Caller | None = None
    batch: object = None


@dataclass(frozen=True)
class Plain:
    """Annotates a field's type with the values that `penstock.events.plain_items` may accept.

    plain_type: the msgspec type of these values. It is stricter than the full validation, except
    that it accepts strings with NUL or not in NFC, which `plain_item` rejects. read: converts the
    field's value; raises `RuleBroken` if the item needs the full validation.
    """

    plain_type: Any
    read: Callable[[Any, EventValidationContext], Any] | None = None


_MAX_BYTES_PER_CHARACTER = 4


def valid_text(value: str, limit: int, unit: str = "characters") -> str:
    """Return the string if it is not empty and within the limit; otherwise raise `RuleBroken`.

    unit: unit of the limit, "characters" or "bytes".
    """
    if 0 < len(value) * _MAX_BYTES_PER_CHARACTER <= limit and "\x00" not in value:
        return value  # Most strings pass this quick check and need no other.
    if not value:
        raise RuleBroken("too_short", "Must not be empty.")
    if (len(value) if unit == "characters" else len(value.encode())) > limit:
        raise RuleBroken("too_long", f"Must have at most {limit:,} {unit}.")
    if "\x00" in value:
        raise RuleBroken("nul_character", "Must not contain the NUL character.")
    return value


def _number_as_text(value: Any) -> Any:
    """Convert a whole number to a decimal string, and leave any other value unchanged.

    Programs in dynamic languages may send database IDs as numbers. `field_warnings` warns about
    this.
    """
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_whole and LOWEST_INTEGER <= value <= HIGHEST_INTEGER else value


def _array_as_object(value: Any) -> Any:
    """Convert an empty array to an empty object, because PHP encodes both as an array."""
    return {} if value == [] else value


def _exact_id(value: str) -> str:
    return valid_text(value, MAX_ID_BYTES, "bytes")


def _id(value: str) -> str:
    return _exact_id(composed(value))


def _name(value: str) -> str:
    return valid_text(composed(value), MAX_NAME_CHARS)


def _path(value: str) -> str:
    return _page_path(valid_text(value, MAX_EVENT_BYTES))


def _page_path(value: str) -> str:
    if not value.startswith("/"):
        raise RuleBroken("not_a_path", "Must begin with a slash, such as /pricing.")
    return page_path(value)


def _text(value: str) -> str:
    return valid_text(value, MAX_STRING_BYTES, "bytes") if value else value


def _long_text(value: str) -> str:
    return valid_text(value, MAX_EVENT_BYTES, "bytes") if value else value


def _known_website(value: str, info: ValidationInfo[EventValidationContext]) -> str:
    return _require_website(value, info.context)


def _require_website(value: str, context: EventValidationContext) -> str:
    if context.find_website(value) is None:
        raise RuleBroken(
            "unknown_website",
            "There is no such website. Copy its ID from Settings, Websites and apps.",
        )
    return value


def require_own_website(website: Website, context: EventValidationContext) -> None:
    """Check that the sender's key, if any, is valid for the website.

    Raises `Unauthorized` if the website belongs to another workspace, and `Forbidden` if the key is
    for another website.
    """
    if context.caller is None:
        return
    if context.caller.workspace_id != website.workspace_id:
        raise website_not_owned()
    require_website_of_key(context.caller, website.id)


def time_from_1970_ms(value: Any) -> int:
    """Convert a time as sent to milliseconds. Raises `RuleBroken` for times before 1970."""
    is_date = isinstance(value, str) and value[4:5] == "-"  # not a number, which may lack digits
    if not is_date and (wrong_unit := error_of_unit(value)):
        raise wrong_unit
    return _from_1970_ms(value)


def _from_1970_ms(value: Any) -> int:
    try:
        at_ms = parse_time(value)
    except TimeOutOfRange as error:
        raise _before_1970() if error.is_early else _after_2299() from None
    except ValueError as error:
        raise RuleBroken("not_a_time", f"The time {error}.") from None
    if at_ms < 0:
        raise _before_1970()
    return at_ms


def timestamp_ms(value: Any) -> int:
    """Like `time_from_1970_ms`, but rejects times after 2299, the warehouse's last year."""
    return _until_2299(time_from_1970_ms(value))


def _clock_reading_ms(value: Any) -> int:
    """Like `timestamp_ms`, for a device's clock, which may restart at 1970 after a power loss."""
    return _until_2299(_from_1970_ms(value))


def _until_2299(at_ms: int) -> int:
    if at_ms > LATEST_MS:
        raise _after_2299()
    return at_ms


def _before_1970() -> RuleBroken:
    return RuleBroken("before_1970", "Times before 1970 are not accepted.")


def _after_2299() -> RuleBroken:
    return RuleBroken("timestamp_in_future", "Times after 2299 are not accepted.")


def future_error(at_ms: int, context: EventValidationContext) -> RuleBroken | None:
    """Return the error if a time is ahead of the server's clock; None if it is not. Source: intake,
    time.
    """
    if at_ms <= context.now_ms + FUTURE_TOLERANCE_S * 1000:
        return None
    return RuleBroken(
        "timestamp_in_future",
        f"More than {FUTURE_TOLERANCE_S} seconds ahead of the server's clock. "
        "Send the time of the event. Where timestamp is optional, omit it to use the time of "
        "receipt.",
    )


def _past_timestamp(value: Any, info: ValidationInfo[EventValidationContext]) -> int:
    return _past_timestamp_ms(value, info.context)


def _past_timestamp_ms(value: Any, context: EventValidationContext) -> int:
    at_ms = timestamp_ms(value)
    if error := future_error(at_ms, context):
        raise error
    return at_ms


def _properties(value: dict[str, Any]) -> dict[str, Any]:
    if faults := property_faults(value):
        raise RulesBroken(faults)
    return value


_ALLOWED_NUMBERS = "Must be a number between -2^63 and 2^64 - 1"


def number_or_none(value: Any) -> int | float | None:
    """Return a number, or parse a decimal string such as "19.99"; None for anything else."""
    if isinstance(value, str) and len(value) <= _MAX_NUMBER_CHARS and is_decimal(value):
        return float(value) if "." in value else int(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return cast("int | float", value) if is_number else None


def _number(value: Any) -> int | float:
    number = number_or_none(value)
    if number is None:
        raise RuleBroken("wrong_type", "Must be a number.")
    if isinstance(number, float) and not isfinite(number):  # Fails for a very large whole number.
        raise RuleBroken("not_finite", f"{_ALLOWED_NUMBERS} and finite.")
    if not LOWEST_INTEGER <= number <= HIGHEST_INTEGER:
        raise RuleBroken("out_of_range", f"{_ALLOWED_NUMBERS}.")
    return number


_MAX_NUMBER_CHARS = 30
_MAX_COUNT = 1_000_000_000


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MAX_COUNT:
        raise RuleBroken("not_a_count", f"Must be a whole number from 1 to {_MAX_COUNT:,}.")
    return value


def _currency(value: str) -> str:
    if not (len(value) == 3 and value.isascii() and value.isalpha()):
        raise RuleBroken("not_a_currency", "Must be an ISO 4217 code of three letters: EUR.")
    return value.upper()


def _clock_offset(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > LATEST_MS:
        raise RuleBroken("not_an_offset", "Must be a whole number of milliseconds.")
    return value


TIME_SCHEMA = WithJsonSchema(
    {
        "anyOf": [{"type": "string", "format": "date-time"}, {"type": "integer"}],
        "description": "ISO 8601 with an offset, or epoch milliseconds",
    }
)

_NOT_EMPTY = Field(json_schema_extra={"minLength": 1})
"""Minimum length, for the API document only. The validators have their own messages."""

PlainId = Annotated[str, Meta(min_length=1, max_length=MAX_ID_BYTES // _MAX_BYTES_PER_CHARACTER)]
_PlainName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
_PlainPath = Annotated[str, Meta(min_length=1, max_length=MAX_PATH_CHARS)]
_PlainText = Annotated[str, Meta(max_length=MAX_STRING_BYTES // _MAX_BYTES_PER_CHARACTER)]
_PlainNumber = (
    Annotated[int, Meta(ge=-EXACT, le=EXACT)] | Annotated[float, Meta(ge=-EXACT, le=EXACT)]
)
_PlainProperties = Annotated[
    dict[_PlainText, _PlainText | _PlainNumber | bool | None], Meta(max_length=MAX_PROPERTY_KEYS)
]

ExactId = Annotated[str, BeforeValidator(_number_as_text), AfterValidator(_exact_id), _NOT_EMPTY]
"""Like `SentId`, but spelled as it was sent."""

SentId = Annotated[
    str,
    BeforeValidator(_number_as_text),
    AfterValidator(_id),
    _NOT_EMPTY,
    Plain(PlainId),
]
"""A client's opaque ID: 1 to 200 bytes in NFC. A whole number is converted to a string."""

KnownWebsite = Annotated[SentId, AfterValidator(_known_website), Plain(PlainId, _require_website)]
"""The ID of an existing website or app."""

EventName = Annotated[str, AfterValidator(_name), _NOT_EMPTY, Plain(_PlainName)]
"""An event, screen or goal name, a country or a region: 1 to 200 characters in NFC."""

PagePath = Annotated[
    str,
    AfterValidator(_path),
    Field(json_schema_extra={"pattern": "^/"}),
    Plain(_PlainPath, lambda value, _: _page_path(value)),
]
"""A normalised page path of any length. `name_and_columns` cuts it."""

Text = Annotated[str, AfterValidator(_text), Plain(_PlainText)]
"""Free text, up to 8 KB."""

DescriptiveText = Annotated[str, AfterValidator(_long_text), Plain(_PlainText)]
"""Free text of any length, which must not cost the event. `name_and_columns` cuts it."""

Timestamp = Annotated[
    int,
    PlainValidator(timestamp_ms),
    TIME_SCHEMA,
    Plain(str | int, lambda value, _: timestamp_ms(value)),
]
"""A time since 1970, parsed to milliseconds."""

ClockReading = Annotated[
    int,
    PlainValidator(_clock_reading_ms),
    TIME_SCHEMA,
    Plain(str | int, lambda value, _: _clock_reading_ms(value)),
]
"""The time on a device's clock, which may be wrong, parsed to milliseconds."""

PastTimestamp = Annotated[
    int,
    PlainValidator(_past_timestamp),
    TIME_SCHEMA,
    Plain(str | int, _past_timestamp_ms),
]
"""A `Timestamp` that is not in the future, with a tolerance of a few minutes."""

Properties = Annotated[
    dict[str, Any],
    BeforeValidator(_array_as_object),
    AfterValidator(_properties),
    Plain(_PlainProperties),
]
"""Structured event metadata. An empty array is read as an empty object."""

Number = Annotated[
    int | float,
    PlainValidator(_number),
    WithJsonSchema({"type": "number", "minimum": LOWEST_INTEGER, "maximum": HIGHEST_INTEGER}),
    Plain(_PlainNumber),
]
"""A number, or a string containing a decimal number."""

Count = Annotated[
    int,
    PlainValidator(_count),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": _MAX_COUNT}),
    Plain(Annotated[int, Meta(ge=1, le=_MAX_COUNT)]),
]
"""A number of items, counted by the sender."""

ClockOffset = Annotated[
    int,
    PlainValidator(_clock_offset),
    WithJsonSchema(
        {
            "type": "integer",
            "description": "How far the sender's clock is behind the server's, in milliseconds, "
            "measured with `serverTime`; negative for a clock that is ahead",
        }
    ),
    Plain(Annotated[int, Meta(ge=-LATEST_MS, le=LATEST_MS)]),
]
"""The error of a device's clock, as measured by the client."""

Currency = Annotated[
    str,
    AfterValidator(_currency),
    Field(json_schema_extra={"pattern": "^[A-Za-z]{3}$"}),
    Plain(str, lambda value, _: _currency(value)),
]
"""An ISO 4217 currency code, converted to upper case."""
