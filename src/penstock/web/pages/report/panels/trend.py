"""The trend of rates or counts by time of entry, as series for a chart."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.base.clock import parse_time
from penstock.funnels.insights.schema import TrendBucketRecord, TrendQuery
from penstock.web.pages.report.panels.context import ReportContext

_MAX_COHORTS = 5
"""Maximum number of lines when each cohort has one: those with the most entries."""


def trend(context: ReportContext) -> dict[str, Any]:
    """Return the trend. chart: the input for `static/charts.js`."""
    query = context.query
    more: dict[str, Any] = {"interval": query.interval, "timezone": query.timezone}
    trend_query = TrendQuery.model_validate(context.page.parameters(**more))
    trend = context.insights.compute_trend(context.shared_query, trend_query)
    if query.measure == "cohorts":
        series = _cohorts(context, trend_query, trend.data)
    elif query.measure == "counts":
        series = _counts(trend.data, context.page.pending_word)
    else:
        series = _rates(trend.data, has_window=context.page.has_window)
    chart = {
        "times": [parse_time(bucket.from_) // 1000 for bucket in trend.data],
        "series": series,
        "zone": query.timezone,
        "axes": {
            "x": f"{query.interval.capitalize()} of entry",
            "y": context.page.noun().capitalize()
            if query.measure == "counts"
            else "Conversion rate",
        },
    }
    return {"trend": trend, "chart": chart, "more": more}


def _rates(buckets: Sequence[TrendBucketRecord], *, has_window: bool) -> list[dict[str, Any]]:
    """Return settled rates, and two broken lines that begin where they end: the lowest rate that
    open buckets can still reach, dashed, and the highest, dotted.
    """
    rates = [bucket.conversion_rate for bucket in buckets]
    maturing_buckets = (index for index, bucket in enumerate(buckets) if bucket.maturing)
    first = next(maturing_buckets, len(buckets)) if has_window else len(buckets)
    settled = [rate if index < first else None for index, rate in enumerate(rates)]
    maturing = [rate if index >= first - 1 else None for index, rate in enumerate(rates)]
    lines: list[dict[str, Any]] = [
        {"label": "Conversion rate", "values": settled, "style": "percent"}
    ]
    if first < len(buckets):
        highest = [
            bucket.final_rate.upper if bucket.final_rate and index >= first else rate
            for index, (bucket, rate) in enumerate(zip(buckets, maturing, strict=True))
        ]
        open_line = {"style": "percent", "colour": "series-1"}
        lines += [
            {"label": "May still rise", "values": maturing, "line": "dashed", **open_line},
            {"label": "At most", "values": highest, "line": "dotted", **open_line},
        ]
    return lines


def _cohorts(
    context: ReportContext, query: TrendQuery, buckets: Sequence[TrendBucketRecord]
) -> list[dict[str, Any]]:
    """Return a line for each of the largest cohorts: its rate where no window is still open."""
    largest = context.prepare(page=1, pageSize=_MAX_COHORTS, sort="entered", order="desc")
    has_window = context.page.has_window
    lines = []
    for cohort in context.results.report(largest).cohorts.data:
        own = context.prepare(cohort.cohort)
        rates = {
            bucket.from_: bucket.conversion_rate
            for bucket in context.insights.compute_trend(own, query).data
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


def _counts(buckets: Sequence[TrendBucketRecord], pending: str) -> list[dict[str, Any]]:
    """Return a line for each count. pending: the label for pending units."""
    series = {
        "Entered": [bucket.entered for bucket in buckets],
        "Completed": [bucket.completed for bucket in buckets],
        pending: [bucket.pending for bucket in buckets],
    }
    return [
        {"label": label, "values": values, "style": "number"} for label, values in series.items()
    ]
