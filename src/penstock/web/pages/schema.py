"""Query parameters of pages. They contain a page's whole state, so that a link restores it."""

import csv
import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from io import StringIO
from typing import Annotated, Any, Literal
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, Field

from penstock.base.calendar import local_time, period_before, period_from
from penstock.base.clock import iso
from penstock.base.errors import Fault
from penstock.base.scalar import Scalar
from penstock.funnels.definitions.schema import SavedFilter
from penstock.funnels.results.schema import ResultsQuery
from penstock.funnels.statements.flows import Where
from penstock.funnels.statements.units import UnitSort
from penstock.http.bodies import bad_parameter
from penstock.http.period import InBuckets, InPeriod

_PERIOD_DAYS = {"7d": 7, "30d": 30, "90d": 90, "settled": 7}
_EARLIEST, _LATEST = date(1970, 1, 2), date(2299, 12, 30)

Day = Annotated[date | None, Field(ge=_EARLIEST, le=_LATEST)]


class PeriodPageQuery(InPeriod, InBuckets):
    """The period and time zone of a page.

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
        return self._midnight(first), self._midnight(last + timedelta(days=1))

    def span_parameters(self, now_ms: int, window_s: int = 0) -> dict[str, str]:
        """Return the span as API query parameters; empty for all time. See `span`."""
        span = self.span(now_ms, window_s)
        return {} if span is None else {"startAt": iso(span[0]), "endAt": iso(span[1])}

    def _midnight(self, day: date) -> int:
        return round(datetime(day.year, day.month, day.day, tzinfo=self.zone).timestamp() * 1000)


class FunnelPageQuery(ResultsQuery, PeriodPageQuery):
    """Query parameters that select the units of a page."""

    def parameters(self, now_ms: int, *, window_s: int = 0, cohort: bool = True) -> dict[str, str]:
        """Return the selection as API query parameters.

        window_s: length of the funnel's conversion window. cohort: whether to include the filter.
        """
        cohort_json = json.dumps(self.cohort, ensure_ascii=False) if self.cohort else None
        parameters = {
            "websiteId": self.website_id,
            **self.span_parameters(now_ms, window_s),
            "asOf": None if self.as_of is None else iso(self.as_of),
            "revision": self.revision and str(self.revision),
            "cohort": cohort_json if cohort else None,
            "filters": self.filters and filters_as_text(self.filters),
            "window": self.window,
            "settled": "true" if self.settled else None,
            "breakdownAt": None if self.breakdown_at is None else str(self.breakdown_at),
            "segment": self.segment,
            "internal": "true" if self.internal else None,
        }
        sent = {name: value for name, value in parameters.items() if value}
        return (
            sent if self.breakdown is None else {**sent, "breakdown": keys_as_text(self.breakdown)}
        )


class UnitsPageQuery(FunnelPageQuery):
    """The state of a list of units. `sort` orders units instead of cohorts."""

    sort: UnitSort = UnitSort.ENTRY  # type: ignore[assignment]


def filters_as_text(filters: Sequence[SavedFilter]) -> str:
    """Return the query parameter `filters`."""
    return json.dumps([item.model_dump() for item in filters], ensure_ascii=False)


def keys_as_text(keys: Sequence[str]) -> str:
    """Return the query parameter `breakdown`."""
    text = StringIO()
    csv.writer(text, lineterminator="").writerow(keys)
    return text.getvalue()


def _read_json(text: Any) -> Any:
    """Raises `ValueError` for text that is not JSON."""
    return json.loads(text)


MAX_PICKED = 6
"""Maximum number of cohorts with their own bars: one for each colour."""

Picked = Annotated[list[dict[str, Scalar | None] | None], Field(max_length=MAX_PICKED)]


class ReportPageQuery(FunnelPageQuery):
    """The state of a report page.

    bars: whether to compare each step with all entries or with the previous step. show: name of the
    tab below them. pair: two steps, such as `1-3`. compare: the period to compare with.
    compare_start: its first day, for `custom`.
    """

    bars: Literal["overall", "steps"] = "overall"
    show: str | None = None
    picked: Annotated[Picked | None, BeforeValidator(_read_json)] = None
    measure: Literal["rate", "counts", "cohorts", "loss"] = "rate"
    pair: Annotated[str | None, Field(pattern=r"^\d{1,2}-\d{1,2}$")] = None
    property_: Annotated[str | None, Field(alias="property")] = None
    baseline: str | None = None
    step: Annotated[int, Field(ge=1, le=19)] = 1
    outcome: Literal["pending", "droppedOff", "excluded", "both"] = "droppedOff"
    where: Where = Where.AFTER
    of: Literal["unit", "visitor"] = "unit"
    compare: Literal["previous", "year", "custom"] | None = None
    compare_start: Day = None

    def compare_error(self, now_ms: int, window_s: int = 0) -> str | None:
        """Return why the period cannot be compared; None if it can. window_s: see `days`."""
        span = self.span(now_ms, window_s)
        if span is None:
            return "Choose a period with a start and an end, such as 30 days."
        if self.compare == "custom" and self.compare_start is None:
            return "Choose the first day of the earlier period."
        start_ms = self.earlier_span(span)[0]
        if start_ms >= span[0]:
            return "The earlier period must start before the other one."
        return None if start_ms >= 0 else "The earlier period must not start before 1970."

    def earlier_span(self, span: tuple[int, int]) -> tuple[int, int]:
        """Return the period to compare with. It has the same length in local time.

        span: start and end of the later period.
        """
        start, end = (local_time(at_ms, self.zone) for at_ms in span)
        if self.compare == "year":
            return period_from(_year_before(start), end - start, self.zone)
        if self.compare == "custom" and self.compare_start is not None:
            midnight = datetime.combine(self.compare_start, time())
            return period_from(midnight, end - start, self.zone)
        return period_before(*span, self.zone)


def _year_before(at: datetime) -> datetime:
    is_leap_day = (at.month, at.day) == (2, 29)
    return at.replace(year=at.year - 1, day=28 if is_leap_day else at.day)


AD_HOC = ("breakdown", "breakdownAt", "filters", "window", "settled", "segment", "internal")
"""Query parameters that change the saved definition for one query."""

_SELECTION = (
    "websiteId",
    "period",
    "start",
    "end",
    "startAt",
    "endAt",
    "timezone",
    "revision",
    "cohort",
    "compare",
    "compareStart",
    *AD_HOC,
)


def selection_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the query parameters of a page that select its units."""
    return {
        name: parameters[name]
        for name in _SELECTION
        if parameters.get(name) or (name == "breakdown" and name in parameters)
    }


def address_with_selection(path: str, selection: Mapping[str, Any], **changes: Any) -> str:
    """Return the address of a page about the same units. changes: None removes a parameter."""
    query = {**selection, **changes}
    text = urlencode({name: value for name, value in query.items() if value is not None})
    return path + (f"?{text}" if text else "")
