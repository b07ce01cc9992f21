"""What the address of a report asks: the state of the page, so that a link restores it, and the same as parameters of the API."""

import json
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from pydantic import Field

from penstock.base.clock import iso
from penstock.funnels.results.schema import ResultsQuery
from penstock.http.period import InBuckets, InPeriod

_DAYS = {"7d": 7, "30d": 30, "90d": 90}
_EARLIEST, _LATEST = date(1970, 1, 2), date(2299, 12, 30)

Day = Annotated[date | None, Field(ge=_EARLIEST, le=_LATEST)]


class Show(StrEnum):
    """What stands below the bars."""

    COHORTS = "cohorts"
    TREND = "trend"
    TIMES = "times"
    COMPARE = "compare"
    NEXT = "next"
    QUALITY = "quality"


class DaysAsked(InPeriod, InBuckets):
    """Which time a page is about.

    period: days until today; or from `start` to `end`, both included, in the time zone. startAt and endAt, as of the API, stand above it.
    """

    period: Literal["7d", "30d", "90d", "all", "custom"] = "30d"
    start: Day = None
    end: Day = None

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    def days(self, now_ms: int) -> tuple[date, date]:
        """The first and the last day of a period in days; of all history, what the form for days begins with."""
        if self.period == "custom" and self.start and self.end and self.start <= self.end:
            return self.start, self.end
        today = datetime.fromtimestamp(now_ms / 1000, self.zone).date()
        return today - timedelta(days=_DAYS.get(self.period, 30) - 1), today

    def span(self, now_ms: int) -> tuple[int, int] | None:
        """The period in milliseconds, its end excluded; None for all history."""
        if self.start_at is not None and self.end_at is not None:
            return self.start_at, self.end_at
        if self.period == "all":
            return None
        first, last = self.days(now_ms)
        return self._midnight(first), self._midnight(last + timedelta(days=1))

    def _midnight(self, day: date) -> int:
        return round(datetime(day.year, day.month, day.day, tzinfo=self.zone).timestamp() * 1000)


class PeriodAsked(ResultsQuery, DaysAsked):
    """Which units a page is about."""

    def parameters(self, now_ms: int, *, cohort: bool = True) -> dict[str, str]:
        """The same as query parameters of the API. cohort: with the cohort filter."""
        span = self.span(now_ms)
        told = {
            "websiteId": self.website_id,
            "startAt": span and iso(span[0]),
            "endAt": span and iso(span[1]),
            "revision": self.revision and str(self.revision),
            "cohort": json.dumps(self.cohort, ensure_ascii=False) if cohort and self.cohort else None,
        }
        return {name: value for name, value in told.items() if value}


class ReportAsked(PeriodAsked):
    """The whole state of a report. bars: each against all who entered, or against the step before. pair: two steps, as `1-3`."""

    bars: Literal["overall", "steps"] = "overall"
    show: Show | None = None
    measure: Literal["rate", "counts"] = "rate"
    pair: Annotated[str | None, Field(pattern=r"^\d{1,2}-\d{1,2}$")] = None
    property_: Annotated[str | None, Field(alias="property")] = None
    baseline: str | None = None
    step: Annotated[int, Field(ge=1, le=19)] = 1
    outcome: Literal["pending", "droppedOff", "both"] = "droppedOff"


_KEPT = ("websiteId", "period", "start", "end", "startAt", "endAt", "timezone", "revision", "cohort")


def kept_address(path: str, given: Mapping[str, Any], **changes: Any) -> str:
    """Another page about the same units. given: parameters of this page; those that say which units stay. None takes one out."""
    query = {**{name: given[name] for name in _KEPT if given.get(name)}, **changes}
    text = urlencode({name: value for name, value in query.items() if value is not None})
    return path + (f"?{text}" if text else "")
