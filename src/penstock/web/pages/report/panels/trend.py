"""The trend of rates or counts by time of entry, as series for a chart."""

from collections.abc import Sequence
from typing import Any

from penstock.base.clock import parse_time
from penstock.funnels.insights.schema import TrendBucketRecord, TrendQuery
from penstock.web.pages.report.panels.context import ReportContext


def trend(context: ReportContext) -> dict[str, Any]:
    """Return the trend. chart: the input for `static/charts.js`."""
    query = context.query
    more: dict[str, Any] = {"interval": query.interval, "timezone": query.timezone}
    trend = context.insights.compute_trend(
        context.shared_query, TrendQuery.model_validate(context.page.parameters(**more))
    )
    series = (
        _rates(trend.data, has_window=context.page.has_window)
        if query.measure == "rate"
        else _counts(trend.data, context.page.pending_word)
    )
    chart = {
        "times": [parse_time(bucket.from_) // 1000 for bucket in trend.data],
        "series": series,
        "zone": query.timezone,
    }
    return {"trend": trend, "chart": chart, "more": more}


def _rates(buckets: Sequence[TrendBucketRecord], *, has_window: bool) -> list[dict[str, Any]]:
    """Return settled rates, and two dashed lines that begin where they end: the lowest and the
    highest rate that open buckets can still reach.
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
        open_line = {"style": "percent", "colour": "series-1", "dashed": True}
        lines += [
            {"label": "May still rise", "values": maturing, **open_line},
            {"label": "At most", "values": highest, **open_line},
        ]
    return lines


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
