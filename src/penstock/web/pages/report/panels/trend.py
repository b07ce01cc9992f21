"""The trend of rates or counts by time of entry, as series for a chart."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.base.rates import rate
from penstock.funnels.questions import RESULTS, TREND
from penstock.funnels.trends import TrendBucketRecord
from penstock.web.pages.charts import Series, chart, counts, rate_lines, rate_series
from penstock.web.pages.report.panels.context import ReportContext

_RATES = ("Conversion rate", "May still rise", "At most")
_MAX_COHORTS = 5
"""Maximum number of lines when each cohort has one: those with the most entries."""


def trend(context: ReportContext) -> dict[str, Any]:
    """Return the trend. chart: the input for `static/charts.js`."""
    query = context.query
    more = context.chosen(TREND)
    if query.measure != "loss":
        del more["step"]
    trend = context.ask(TREND, more)
    if query.measure in ("cohorts", "loss"):
        series = _cohorts(context, more, trend.data)
    elif query.measure == "counts":
        series = _counts(trend.data, context.page.pending_word)
    else:
        lines = rate_lines(trend.data, has_window=context.page.has_window)
        series = rate_series(lines, _RATES, "series-1")
    counted = context.page.noun().capitalize()
    y_axis = {"counts": counted, "loss": "Share of the loss"}.get(query.measure, "Conversion rate")
    axes = (f"{trend.interval.capitalize()} of entry", y_axis)
    times = [bucket.from_ for bucket in trend.data]
    return {"trend": trend, "chart": chart(times, query.timezone, axes, series), "more": more}


def _cohorts(
    context: ReportContext, more: Mapping[str, Any], buckets: Sequence[TrendBucketRecord]
) -> list[Series]:
    """Return a line for each of the largest cohorts, where no window is still open: its rate or, if
    a step is chosen, its share of the loss after the step.
    """
    largest = context.prepare(page=1, pageSize=_MAX_COHORTS, sort="entered", order="desc")
    has_window = context.page.has_window
    lost = {bucket.from_: bucket.lost for bucket in buckets}
    lines = []
    for cohort in context.ask(RESULTS, {}, largest).cohorts.data:
        own = context.prepare(cohort.cohort)
        rates = {
            bucket.from_: bucket.conversion_rate
            if bucket.lost is None
            else rate(bucket.lost, lost.get(bucket.from_) or 0)
            for bucket in context.ask(TREND, more, own).data
            if not (bucket.maturing and has_window)
        }
        values = [rates.get(bucket.from_) for bucket in buckets]
        lines.append({"label": _label(cohort.cohort), "values": values, "style": "percent"})
    return lines


def _label(cohort: Mapping[str, Any]) -> str:
    """Return a cohort's values as text. A missing value is called Unknown."""
    return ", ".join(
        "Unknown" if value is None else value if isinstance(value, str) else json.dumps(value)
        for value in cohort.values()
    )


def _counts(buckets: Sequence[TrendBucketRecord], pending: str) -> list[Series]:
    """Return a line for each count. pending: the label for pending units."""
    return [
        counts("Entered", [bucket.entered for bucket in buckets]),
        counts("Completed", [bucket.completed for bucket in buckets]),
        counts(pending, [bucket.pending for bucket in buckets]),
    ]
