"""Query parameters about time: a period, and the buckets that it is told in."""

from functools import cache
from itertools import islice
from typing import Annotated, Any
from zoneinfo import ZoneInfo, available_timezones

from pydantic import Field, ValidationInfo, WithJsonSchema, field_validator, model_validator

from penstock.base.calendar import Interval, bucket_edges
from penstock.base.clock import LATEST_MS, parse_time
from penstock.base.errors import Fault
from penstock.http.bodies import bad_parameter
from penstock.http.schema import Query, RuleBroken

MAX_BUCKETS = 2_000

TIME = "ISO 8601 with an offset, or epoch milliseconds"
AS_TIME = WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "integer"}]})


def moment(value: Any) -> int | None:
    """Milliseconds of a time as it was sent. RuleBroken when it is none."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise RuleBroken("wrong_type", f"Must be a time: {TIME}.")
    try:
        at_ms = parse_time(value)
    except ValueError as error:
        lost_plus = "; in an address + is written %2B" if isinstance(value, str) and " " in value.strip() else ""
        raise RuleBroken("not_a_time", f"This time {error}{lost_plus}.") from None
    if not 0 <= at_ms <= LATEST_MS:
        raise RuleBroken("out_of_range", "Must lie between 1970 and 2299.")
    return at_ms


def ends_after_start(end_ms: int | None, info: ValidationInfo) -> int | None:
    """The end of a period whose beginning, `start_at`, was read before it. RuleBroken when the two are no period."""
    if "start_at" not in info.data:
        return end_ms  # startAt is at fault itself
    start_ms = info.data["start_at"]
    if start_ms is None and end_ms is not None:
        raise RuleBroken("needs_start", "Give startAt as well; endAt alone is no period.")
    if end_ms is None and start_ms is not None:
        raise RuleBroken("needs_end", "Give endAt as well; startAt alone is no period.")
    if start_ms is not None and end_ms is not None and end_ms <= start_ms:
        raise RuleBroken("ends_before_start", "Must be later than startAt; the period includes startAt and excludes endAt.")
    return end_ms


def both_ends(sent: Any) -> Any:
    """An input that names both ends of its period, so that each is checked, and told of, also where it was left out."""
    return {"startAt": None, "endAt": None, **sent} if isinstance(sent, dict) else sent


class InPeriod(Query):
    """A period with both ends, or none."""

    start_at: Annotated[int | None, AS_TIME, Field(description=f"From this time on: {TIME}. Needs endAt.")] = None
    end_at: Annotated[int | None, AS_TIME, Field(description="Until before this time. Needs startAt.")] = None

    _complete = model_validator(mode="before")(both_ends)
    _read_time = field_validator("start_at", "end_at", mode="before")(moment)
    _read_period = field_validator("end_at")(ends_after_start)


@cache
def _timezones() -> set[str]:
    return available_timezones() - {"localtime", "Factory", "posixrules"}


class InBuckets(Query):
    """Numbers by hour, day, week or month of a time zone."""

    interval: Annotated[Interval, Field(description="Length of a bucket; weeks begin on Monday.")] = Interval.DAY
    timezone: Annotated[str, Field(max_length=64, description="IANA name, as Europe/Berlin; days are those of this zone.")] = "UTC"

    @field_validator("timezone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if name not in _timezones():
            raise RuleBroken("unknown_timezone", "There is no time zone of this name; give an IANA name, as Europe/Berlin.")
        return name

    def edges(self, first_ms: int, last_ms: int, span: str) -> list[int]:
        """Beginnings of the buckets that hold a span of time, and the end of the last one. Malformed when they are too many.

        span: what the span is called, at the beginning of a sentence.
        """
        edges = list(islice(bucket_edges(first_ms, last_ms, self.interval, ZoneInfo(self.timezone)), MAX_BUCKETS + 2))
        if len(edges) > MAX_BUCKETS + 1:
            wrong = f"{span} has more than {MAX_BUCKETS:,} of these; take a longer interval or a shorter period."
            raise bad_parameter(Fault("interval", "does_not_fit", wrong))
        return edges
