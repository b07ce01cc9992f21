"""Types of the fields that clients send. Each checks its own limits; which those are, and what time it is, comes as `Bounds`."""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, PlainValidator, ValidationInfo, WithJsonSchema

from penstock.accounts.model import Website
from penstock.base.clock import parse_time
from penstock.base.paths import page_path
from penstock.events.properties import HIGHEST_INTEGER, LOWEST_INTEGER, property_faults
from penstock.http.schema import RuleBroken, RulesBroken
from penstock.settings import Settings

FindWebsite = Callable[[str], Website | None]


class Bounds(NamedTuple):
    """What an input is held against: the validation context of every model with these fields.

    find_website: of whatever workspace, for senders without a key.
    """

    limits: Settings
    now_ms: int
    find_website: FindWebsite = lambda _: None


_MOST_BYTES_OF_A_CHARACTER = 4


def _checked_text(value: str, most: int, unit: str = "characters") -> str:
    """unit: what `most` counts, characters or bytes."""
    if 0 < len(value) * _MOST_BYTES_OF_A_CHARACTER <= most and "\x00" not in value:
        return value  # a glance is enough for most
    if not value:
        raise RuleBroken("too_short", "Must not be empty.")
    if (len(value) if unit == "characters" else len(value.encode())) > most:
        raise RuleBroken("too_long", f"At most {most:,} {unit}.")
    if "\x00" in value:
        raise RuleBroken("nul_character", "Must not contain the NUL character.")
    return value


def _id(value: str, info: ValidationInfo[Bounds]) -> str:
    return _checked_text(value, info.context.limits.max_id_bytes, "bytes")


def _name(value: str, info: ValidationInfo[Bounds]) -> str:
    return _checked_text(value, info.context.limits.max_name_chars)


def _path(value: str, info: ValidationInfo[Bounds]) -> str:
    _checked_text(value, info.context.limits.max_path_chars)
    if not value.startswith("/"):
        raise RuleBroken("not_a_path", "Must begin with a slash, as /pricing.")
    return page_path(value)


def _text(value: str, info: ValidationInfo[Bounds]) -> str:
    return _checked_text(value, info.context.limits.max_string_bytes, "bytes") if value else value


def _known_website(value: str, info: ValidationInfo[Bounds]) -> str:
    if info.context.find_website(value) is None:
        raise RuleBroken("unknown_website", "There is no such website; its ID is in the tracking settings.")
    return value


def moment_ms(value: Any) -> int:
    """Milliseconds of a time as it was sent; `RuleBroken` when it is none that events may have."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # the same number in JSON
    if isinstance(value, bool) or not isinstance(value, str | int) or (isinstance(value, str) and len(value) > 64):
        raise RuleBroken("not_a_time", "Must be an ISO 8601 time with an offset, or epoch milliseconds.")
    try:
        at_ms = parse_time(value)
    except (ValueError, OverflowError) as error:
        raise RuleBroken("not_a_time", f"The time {error}.") from None
    if at_ms < 0:
        raise RuleBroken("before_1970", "Times before 1970 are not taken.")
    return at_ms


def future_fault(at_ms: int, bounds: Bounds) -> RuleBroken | None:
    """What is wrong with a time ahead of ours. Source: intake, time."""
    tolerance_s = bounds.limits.future_tolerance_s
    if at_ms <= bounds.now_ms + tolerance_s * 1000:
        return None
    return RuleBroken(
        "timestamp_in_future",
        f"Lies more than {tolerance_s} seconds ahead of the server's clock; send when it happened, or leave it out for now.",
    )


def _past_moment(value: Any, info: ValidationInfo[Bounds]) -> int:
    at_ms = moment_ms(value)
    if fault := future_fault(at_ms, info.context):
        raise fault
    return at_ms


def _properties(value: dict[str, Any], info: ValidationInfo[Bounds]) -> dict[str, Any]:
    if faults := property_faults(value, info.context.limits):
        raise RulesBroken(faults)
    return value


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RuleBroken("wrong_type", "Must be a number.")
    if not LOWEST_INTEGER <= value <= HIGHEST_INTEGER:  # true of NaN, too
        raise RuleBroken("not_finite", "Must be a number between -2^63 and 2^63 - 1.")
    return value


def _currency(value: str) -> str:
    if not (len(value) == 3 and value.isascii() and value.isalpha() and value.isupper()):
        raise RuleBroken("not_a_currency", "Must be an ISO 4217 code of three capital letters, as EUR.")
    return value


_TIME_SCHEMA = WithJsonSchema(
    {
        "anyOf": [{"type": "string", "format": "date-time"}, {"type": "integer"}],
        "description": "ISO 8601 with an offset, or epoch milliseconds",
    }
)

SentId = Annotated[str, AfterValidator(_id)]
"""An opaque ID of the client's, 1 to 200 bytes."""

KnownWebsite = Annotated[SentId, AfterValidator(_known_website)]
"""The ID of a website or app that there is."""

EventName = Annotated[str, AfterValidator(_name)]
"""An event, screen or goal name, or a place: 1 to 200 characters."""

PagePath = Annotated[str, AfterValidator(_path)]
"""A page path; normalised."""

Text = Annotated[str, AfterValidator(_text)]
"""Free text, up to 8 KB."""

Moment = Annotated[int, PlainValidator(moment_ms), _TIME_SCHEMA]
"""A time not before 1970, in milliseconds once read."""

PastMoment = Annotated[int, PlainValidator(_past_moment), _TIME_SCHEMA]
"""A `Moment` that does not lie in the future, but for a few minutes by which clocks differ."""

Properties = Annotated[dict[str, Any], AfterValidator(_properties)]
"""Structured event metadata."""

Number = Annotated[int | float, PlainValidator(_number), WithJsonSchema({"type": "number"})]

Currency = Annotated[str, AfterValidator(_currency)]
