"""The trend of rates or counts by time of entry, as series for a chart."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pydantic import MISSING

from penstock.base.calendar import Interval, local_time
from penstock.base.errors import PenstockError
from penstock.base.rates import rate
from penstock.funnels.forecasts.schema import NoForecast
from penstock.funnels.queries.single_flight_cache import NotCached
from penstock.funnels.questions import TREND
from penstock.funnels.shown_forecasts import lacks, shown_forecast
from penstock.funnels.trends import TrendBucketRecord, TrendRecord
from penstock.web.pages.charts import (
    Series,
    chart,
    counts,
    earlier_rates,
    forecast_series,
    rates,
)
from penstock.web.pages.report.panels.annotations import annotations_of, with_marks
from penstock.web.pages.report.panels.context import ReportContext
from penstock.web.pages.report.panels.other_tools import ask_like
from penstock.web.pages.report.panels.periods import compared
from penstock.web.pages.report.panels.segments import segments


def trend(context: ReportContext) -> dict[str, Any]:
    """Return the trend, with forecasts if they have been made. See `_trend`."""
    with suppress(NotCached):
        return _trend(replace(context, only_cached=True), has_forecasts=True)
    return _trend(context, has_forecasts=False)


def trend_with_forecasts(context: ReportContext) -> dict[str, Any]:
    """Return the trend with forecasts or, if they take too long, without them."""
    try:
        return _trend(context, has_forecasts=True)
    except PenstockError:
        return {**_trend(context, has_forecasts=False), "may_forecast": False}


def _trend(context: ReportContext, *, has_forecasts: bool) -> dict[str, Any]:
    """Return the trend. chart: the input for `static/charts.js`. pair: see `_pair`. today: the day
    for a new annotation.

    has_forecasts: whether to forecast the rates of open buckets, which may take long.
    """
    query = context.query
    more = context.chosen(TREND)
    if query.measure != "loss":
        del more["step"]
    pair = _pair(context)
    if pair is not None:
        more |= {"fromStep": pair[0], "toStep": pair[1]}
    may_forecast = query.measure == "rate" and pair is None and context.page.has_window
    has_forecasts = has_forecasts and may_forecast
    if has_forecasts:
        more["forecast"] = "true"
    trend, other = ask_like(context, TREND, more)
    if context.only_cached and any(
        lacks(bucket.forecast, NoForecast.NOT_READY) for bucket in trend.data
    ):
        raise NotCached
    forecasts = [shown_forecast(bucket.forecast) for bucket in trend.data]
    if query.measure in ("cohorts", "loss"):
        series = _cohorts(context, more, trend.data)
    elif query.measure == "counts":
        series = _counts(trend.data, context.page.pending_word)
    elif pair is not None:
        label = f"Step {pair[0]} to {pair[1]}"
        series = [rates(trend.data, label, has_window=context.page.has_window)]
    else:
        series = [*rate_series(context, trend), *forecast_series(forecasts)]
    if other is not None and other.is_counted:
        series += _like(context, trend.data, other.name, is_whole=pair is None)
        more |= other.more
    counted = context.page.noun().capitalize()
    y_axis = {"counts": counted, "loss": "Share of the loss"}.get(query.measure, "Conversion rate")
    axes = (f"{trend.interval.capitalize()} of entry", y_axis)
    times = [bucket.from_ for bucket in trend.data]
    annotations = annotations_of(context, trend.data)
    return {
        "trend": trend,
        "chart": with_marks(chart(times, query.timezone, axes, series), annotations),
        "annotations": annotations,
        "today": local_time(context.page.view.now_ms, query.zone).date().isoformat(),
        "more": more,
        "pair": pair,
        "may_forecast": may_forecast and any(bucket.maturing for bucket in trend.data),
        "has_forecasts": has_forecasts,
        "forecasts": forecasts,
        "beside": other,
    }


def _pair(context: ReportContext) -> tuple[int, int] | None:
    """Return the steps between which to show the rate; None for that of the whole funnel."""
    is_rate = context.query.measure in ("rate", "cohorts")
    is_whole = context.pair == (1, len(context.page.required_steps))
    return context.pair if is_rate and not is_whole else None


def _final_rate(bucket: TrendBucketRecord, *, has_window: bool) -> float | None:
    """Return a bucket's rate, between two steps if the reader chose some; None if it is open."""
    if bucket.maturing and has_window:
        return None
    if bucket.between is None:
        return bucket.conversion_rate
    return bucket.between.settled_rate if has_window else bucket.between.conversion_rate


def rate_series(context: ReportContext, trend: TrendRecord) -> list[Series]:
    """Return the line of the rates. A trend by day also has the line of the earlier period, if the
    page compares with one.
    """
    has_window = context.page.has_window
    comparison = compared(context) if trend.interval == Interval.DAY else None
    if comparison is None:
        return [rates(trend.data, "Conversion rate", has_window=has_window)]
    days = comparison.record.trend or []
    return [
        rates(trend.data, "This period", has_window=has_window),
        earlier_rates([day.bucket_before for day in days], "Earlier period"),
    ]


def _cohorts(
    context: ReportContext, more: Mapping[str, Any], buckets: Sequence[TrendBucketRecord]
) -> list[Series]:
    """Return a line for each cohort that the page shows, where no window is still open: its rate
    (between two steps, if the reader chose some), or its share of the loss after a step.
    """
    has_window = context.page.has_window
    lost = {bucket.from_: bucket.lost for bucket in buckets}
    shown = [(each.cohort, each.colour) for each in segments(context)]
    lines = []
    for cohort, colour in shown or [(cohort, 1) for cohort in context.largest_cohorts]:
        own = context.prepare(cohort.cohort)
        settled = {
            bucket.from_: _final_rate(bucket, has_window=has_window)
            if bucket.lost is None
            else rate(bucket.lost, lost.get(bucket.from_) or 0)
            for bucket in context.ask(TREND, more, own).data
            if not (bucket.maturing and has_window)
        }
        values = [settled.get(bucket.from_) for bucket in buckets]
        look = {"style": "percent", "colour": f"series-{colour}"}
        lines.append({"label": _label(cohort.cohort), "values": values, **look})
    return lines


def _label(cohort: Mapping[str, Any]) -> str:
    """Return a cohort's values as text. A missing value is called Unknown."""
    return ", ".join(
        "Unknown" if value is None else value if isinstance(value, str) else json.dumps(value)
        for value in cohort.values()
    )


def _like(
    context: ReportContext, buckets: Sequence[TrendBucketRecord], name: str, *, is_whole: bool
) -> list[Series]:
    """Return the line by the rules of another tool, of the same measure, if there is one.

    is_whole: whether the rate is that of the whole funnel. Open buckets have no rate yet.
    """
    likes = [bucket.count_like for bucket in buckets if bucket.count_like is not MISSING]
    if context.query.measure == "counts":
        return [counts(f"Completed in {name}", [like.completed for like in likes])]
    if context.query.measure != "rate" or not is_whole:
        return []
    values = [
        None if bucket.maturing and context.page.has_window else rate(like.completed, like.entered)
        for bucket, like in zip(buckets, likes, strict=True)
    ]
    look = {"style": "percent", "colour": "series-2", "line": "dashed"}
    return [{"label": f"In {name}", "values": values, **look}]


def _counts(buckets: Sequence[TrendBucketRecord], pending: str) -> list[Series]:
    """Return a line for each count. pending: the label for pending units."""
    return [
        counts("Entered", [bucket.entered for bucket in buckets]),
        counts("Completed", [bucket.completed for bucket in buckets]),
        counts(pending, [bucket.pending for bucket in buckets]),
    ]
