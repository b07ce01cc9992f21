"""The trend of rates or counts by time of entry, as series for a chart."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.funnels.questions import RESULTS, TREND
from penstock.funnels.trends import TrendBucketRecord
from penstock.web.pages.charts import Series, chart, counts, rates
from penstock.web.pages.report.panels.context import ReportContext

_MAX_COHORTS = 6
"""Maximum number of lines when each cohort has one: those with the most entries."""


def trend(context: ReportContext) -> dict[str, Any]:
    """Return the trend. chart: the input for `static/charts.js`."""
    query = context.query
    more = context.chosen(TREND)
    trend = context.ask(TREND, more)
    if query.measure == "cohorts":
        series = _cohorts(context, more, trend.data)
    elif query.measure == "counts":
        series = _counts(trend.data, context.page.pending_word)
    else:
        series = [rates(trend.data, "Conversion rate", has_window=context.page.has_window)]
    counted = context.page.noun().capitalize()
    y_axis = counted if query.measure == "counts" else "Conversion rate"
    axes = (f"{trend.interval.capitalize()} of entry", y_axis)
    times = [bucket.from_ for bucket in trend.data]
    return {"trend": trend, "chart": chart(times, query.timezone, axes, series), "more": more}


def _cohorts(
    context: ReportContext, more: Mapping[str, Any], buckets: Sequence[TrendBucketRecord]
) -> list[Series]:
    """Return a line for each of the largest cohorts: its rate where no window is still open."""
    largest = context.prepare(page=1, pageSize=_MAX_COHORTS, sort="entered", order="desc")
    has_window = context.page.has_window
    lines = []
    for cohort in context.ask(RESULTS, {}, largest).cohorts.data:
        own = context.prepare(cohort.cohort)
        settled = {
            bucket.from_: bucket.conversion_rate
            for bucket in context.ask(TREND, more, own).data
            if not (bucket.maturing and has_window)
        }
        values = [settled.get(bucket.from_) for bucket in buckets]
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
