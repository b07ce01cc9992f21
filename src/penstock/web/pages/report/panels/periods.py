"""The comparison with an earlier period: figures, steps, cohorts and days of both."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.base.clock import iso
from penstock.base.paging import MAX_PAGE_SIZE
from penstock.funnels.periods import Conclusion, DayChangeRecord, PeriodsRecord
from penstock.funnels.questions import PERIODS
from penstock.funnels.results.schema import AggregateRecord
from penstock.web.pages.charts import chart, earlier_rates, rates
from penstock.web.pages.report.panels.context import ReportContext


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of both periods, without an interval. style: as in `ui.number`."""

    name: str
    now: float | None
    before: float | None
    style: str = "number"

    @property
    def growth(self) -> float | None:
        """Return the relative change; None if the earlier value is missing."""
        if self.now is None or not self.before:
            return None
        return self.now / self.before - 1


def compare_periods(context: ReportContext) -> dict[str, Any]:
    """Return the comparison, or `obstacle`: why there is none."""
    page, query = context.page, context.query
    window_s = page.definition.window_s
    now_ms = page.view.now_ms
    obstacle = query.compare_error(now_ms, window_s or 0)
    span = query.span(now_ms, window_s or 0)
    if obstacle or span is None or window_s is None:
        return {"obstacle": obstacle}
    start_ms, end_ms = query.earlier_span(span)
    more: dict[str, Any] = {
        "compareStartAt": iso(start_ms),
        "compareEndAt": iso(end_ms),
        "timezone": query.timezone,
    }
    prepared = context.prepare(page=1, pageSize=MAX_PAGE_SIZE)
    record = context.ask(PERIODS, more, prepared)
    return {
        "obstacle": None,
        "record": record,
        "span_ms": (start_ms, end_ms),
        "is_so_far": record.settled_rate.answer is Conclusion.TOO_EARLY,
        "figures": list(_figures(record, page.pending_word, excludes=page.excludes)),
        "properties": page.definition.breakdown_properties,
        "chart": _chart(record.trend or [], query.timezone),
        "more": more,
    }


def _figures(record: PeriodsRecord, pending: str, *, excludes: bool) -> Iterator[Figure]:
    now, before = record.aggregate, record.earlier.aggregate
    yield Figure("Entered", now.entered, before.entered)
    yield Figure("Completed", now.completed, before.completed)
    yield Figure("Settled", now.settled, before.settled)
    yield Figure("Median time to complete", _median_s(now), _median_s(before), "duration")
    yield Figure("Dropped off", now.dropped_off, before.dropped_off)
    yield Figure(pending, now.pending, before.pending)
    yield Figure("Completed early", now.early_completions, before.early_completions)
    if excludes:
        yield Figure("Excluded", now.excluded, before.excluded)


def _median_s(aggregate: AggregateRecord) -> float | None:
    minutes = aggregate.median_completion_minutes
    return None if minutes is None else minutes * 60


def _chart(days: Sequence[DayChangeRecord], zone: str) -> dict[str, Any]:
    """Return the chart of the rates of both periods."""
    series = [
        rates([day.bucket for day in days], "This period"),
        earlier_rates([day.bucket_before for day in days], "Earlier period"),
    ]
    axes = ("Day of entry in this period", "Conversion rate")
    return chart([day.bucket.from_ for day in days], zone, axes, series)
