"""Query parameters for a period and its buckets."""

from datetime import date, datetime, timedelta
from functools import cache
from itertools import islice
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, available_timezones

from pydantic import Field, ValidationInfo, WithJsonSchema, field_validator, model_validator

from penstock.base.calendar import Interval, bucket_edges, start_of_day_ms
from penstock.base.clock import (
    LATEST_MS,
    TimeOutOfRange,
    iso,
    looks_like_microseconds,
    looks_like_seconds,
    parse_time,
)
from penstock.base.errors import Fault
from penstock.http.bodies import bad_parameter
from penstock.http.schema import Query, RuleBroken

MAX_BUCKETS = 2_000

TIME = "ISO 8601 with an offset, or epoch milliseconds"

AS_TIME = WithJsonSchema(
    {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "integer"}]}
)


def read_time_ms(value: Any) -> int | None:
    """Return a sent time in milliseconds. Raises `RuleBroken` if it is not between 1970 and
    2299.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise RuleBroken("wrong_type", f"Must be a time: {TIME}.")
    try:
        at_ms = parse_time(value)
    except TimeOutOfRange:
        raise error_of_unit(value) or _out_of_range() from None
    except ValueError as error:
        plus_hint = (
            "; write + as %2B in a URL" if isinstance(value, str) and " " in value.strip() else ""
        )
        raise RuleBroken("not_a_time", f"This time {error}{plus_hint}.") from None
    if wrong_unit := error_of_unit(value):
        raise wrong_unit
    if not 0 <= at_ms <= LATEST_MS:
        raise _out_of_range()
    return at_ms


def error_of_unit(value: Any) -> RuleBroken | None:
    """Return the error for a number that looks like seconds or microseconds; None for any other
    time.
    """
    if looks_like_seconds(value):
        unit, milliseconds = "seconds", int(value) * 1000
    elif looks_like_microseconds(value):
        unit, milliseconds = "microseconds", int(value) // 1000
    else:
        return None
    return RuleBroken(
        "looks_like_seconds" if unit == "seconds" else "looks_like_microseconds",
        f"{int(value)} looks like {unit}; send epoch milliseconds ({milliseconds}) or an ISO 8601 "
        "time with an offset.",
    )


def _out_of_range() -> RuleBroken:
    return RuleBroken("out_of_range", "Must be between 1970 and 2299.")


def ends_after_start(end_ms: int | None, info: ValidationInfo) -> int | None:
    """Validate that a period ends after it starts. Raises `RuleBroken` otherwise."""
    if "start_at" not in info.data:
        return end_ms  # startAt already has an error
    start_ms = info.data["start_at"]
    if start_ms is None and end_ms is not None:
        raise RuleBroken("needs_start", "Send startAt as well: a period has both ends.")
    if end_ms is None and start_ms is not None:
        raise RuleBroken("needs_end", "Send endAt as well: a period has both ends.")
    if start_ms is not None and end_ms is not None and end_ms <= start_ms:
        raise RuleBroken(
            "ends_before_start",
            "Must be after startAt; the period includes startAt and excludes endAt.",
        )
    return end_ms


def add_missing_end(sent: Any) -> Any:
    """Return the input with both ends of its period, so that a missing end is validated too."""
    return {"startAt": None, "endAt": None, **sent} if isinstance(sent, dict) else sent


class InPeriod(Query):
    """Query parameters for a period. Give both ends or neither."""

    start_at: Annotated[
        int | None, AS_TIME, Field(description=f"From this time on: {TIME}. Requires `endAt`.")
    ] = None
    end_at: Annotated[int | None, AS_TIME] = None
    """Before this time. Requires `startAt`."""

    _complete = model_validator(mode="before")(add_missing_end)
    _read_time = field_validator("start_at", "end_at", mode="before")(read_time_ms)
    _read_period = field_validator("end_at")(ends_after_start)


@cache
def _timezones() -> set[str]:
    return available_timezones() - {"localtime", "Factory", "posixrules"}


def known_timezone(name: str) -> str:
    """Validator: require the name of a time zone."""
    if name not in _timezones():
        raise RuleBroken(
            "unknown_timezone",
            "Unknown time zone; use an IANA name such as Europe/Berlin.",
        )
    return name


class InTimezone(Query):
    """A query parameter for the time zone of calendar days."""

    timezone: Annotated[str, Field(max_length=64)] = "UTC"
    """Time zone for days, as an IANA name such as Europe/Berlin."""

    _known = field_validator("timezone")(known_timezone)


class InBuckets(InTimezone):
    """Query parameters for buckets by hour, day, week or month in a time zone."""

    interval: Annotated[
        Interval,
        Field(
            description=f"Length of a bucket; weeks start on Monday. If it is not sent, longer "
            f"buckets replace more than {MAX_BUCKETS:,} days."
        ),
    ] = Interval.DAY

    def fitting(self, first_ms: int, last_ms: int) -> Self:
        """Return the query with buckets that fit a span of time, if the sender left the choice."""
        if "interval" in self.model_fields_set:
            return self
        choices = (
            self.model_copy(update={"interval": interval})
            for interval in (Interval.DAY, Interval.WEEK, Interval.MONTH)
        )
        return next((query for query in choices if query.edges_or_none(first_ms, last_ms)), self)

    def edges(self, first_ms: int, last_ms: int, span: str) -> list[int]:
        """Return the starts of the buckets that cover a span of time, and the end of the last
        bucket.

        span: name of the span of time, used as the subject of the error message. Raises `Malformed`
        if there are more than `MAX_BUCKETS`.
        """
        edges = self.edges_or_none(first_ms, last_ms)
        if edges is None:
            message = (
                f"{span} has more than {MAX_BUCKETS:,} buckets of this length; "
                "use a longer interval or a shorter period."
            )
            raise bad_parameter(Fault("interval", "does_not_fit", message))
        return edges

    def edges_or_none(self, first_ms: int, last_ms: int) -> list[int] | None:
        """Like `edges`, but returns None if there are more than `MAX_BUCKETS`."""
        edges = bucket_edges(first_ms, last_ms, self.interval, ZoneInfo(self.timezone))
        first_edges = list(islice(edges, MAX_BUCKETS + 2))
        return None if len(first_edges) > MAX_BUCKETS + 1 else first_edges


_PERIOD_DAYS = {"7d": 7, "30d": 30, "90d": 90, "settled": 7}
_EARLIEST, _LATEST = date(1970, 1, 2), date(2299, 12, 30)

Day = Annotated[date | None, Field(ge=_EARLIEST, le=_LATEST)]


class ReportPeriod(InPeriod, InBuckets):
    """The period and time zone of a report.

    period: days until today; `settled` for the last seven days whose units are all settled; or
    `custom` for `start` to `end`, both inclusive, in the time zone. startAt and endAt of the API
    take precedence.
    """

    period: Literal["7d", "30d", "90d", "all", "settled", "custom"] = "30d"
    start: Day = None
    end: Day = None

    def buckets(self) -> dict[str, Any]:
        """Return the parameters of a trend, which chooses its buckets if the page did not."""
        return self.model_dump(include={"interval", "timezone"}, exclude_unset=True)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    @property
    def period_error(self) -> str | None:
        """Return the problem with a custom period; None if it is valid."""
        if self.period != "custom" or self.start_at is not None:
            return None
        if self.start is None or self.end is None:
            return "Enter both a start date and an end date."
        if self.end < self.start:
            return "The end date must not be before the start date."
        return None

    def days(self, now_ms: int, window_s: int = 0) -> tuple[date | None, date | None]:
        """Return the first and last day, for the fields of the custom period.

        window_s: length of the funnel's conversion window.
        """
        if self.period == "custom":
            return self.start, self.end
        last = datetime.fromtimestamp(now_ms / 1000, self.zone).date()
        if self.period == "settled":
            settled_until = datetime.fromtimestamp(now_ms / 1000 - window_s, self.zone)
            last = settled_until.date() - timedelta(days=1)
        return last - timedelta(days=_PERIOD_DAYS.get(self.period, 30) - 1), last

    def span(self, now_ms: int, window_s: int = 0) -> tuple[int, int] | None:
        """Return the start and end (exclusive) in milliseconds; None for all time.

        window_s: see `days`. Raises `Malformed` for an invalid custom period.
        """
        if self.start_at is not None and self.end_at is not None:
            return self.start_at, self.end_at
        if self.period == "all":
            return None
        first, last = self.days(now_ms, window_s)
        if self.period_error or first is None or last is None:
            raise bad_parameter(Fault("end", "ends_before_start", self.period_error or ""))
        end = last + timedelta(days=1)
        return start_of_day_ms(first, self.zone), start_of_day_ms(end, self.zone)

    def span_parameters(self, now_ms: int, window_s: int = 0) -> dict[str, str]:
        """Return the span as API query parameters; empty for all time. See `span`."""
        span = self.span(now_ms, window_s)
        return {} if span is None else {"startAt": iso(span[0]), "endAt": iso(span[1])}
