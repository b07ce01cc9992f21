"""Where the rates of open units will settle: a sentence, a whisker on each bar, and a tab with
earlier forecasts.
"""

from typing import Any, NamedTuple

from penstock.funnels.forecasts.schema import NoForecast
from penstock.funnels.queries.single_flight_cache import NotCached
from penstock.funnels.questions import REPLAYS
from penstock.funnels.results.schema import StepRecord
from penstock.funnels.shown_forecasts import lacks, shown_forecast
from penstock.web.pages.charts import chart
from penstock.web.pages.report.panels.context import ReportContext
from penstock.web.pages.report.panels.segments import segments


class Whisker(NamedTuple):
    """The forecast of a step, on its bar. low, rate, high: shares of the bar. text: in words."""

    step: int
    low: float
    rate: float
    high: float
    text: str


def forecast(context: ReportContext) -> dict[str, Any]:
    """Return the forecast, and whiskers by step, if the bars show shares of all units."""
    report = context.forecast_report()
    is_drawn = context.query.bars == "overall" and not segments(context)
    steps = report.aggregate.steps if is_drawn else []
    whiskers = (_whisker(step, report.aggregate.entered) for step in steps)
    return {
        "shown": shown_forecast(report.forecast),
        "lacks_history": lacks(report.forecast, NoForecast.TOO_LITTLE_HISTORY),
        "whiskers": {whisker.step: whisker for whisker in whiskers if whisker is not None},
    }


def _whisker(step: StepRecord, entered: int) -> Whisker | None:
    """Return the whisker of a step. entered: the whole bar, which includes excluded units."""
    shown = shown_forecast(step.forecast)
    if shown is None or not shown.rate:
        return None
    scale = shown.completed / shown.rate / entered
    low, rate, high = (scale * each for each in (shown.low, shown.rate, shown.high))
    return Whisker(step.step, low, rate, high, shown.text)


def earlier_forecasts(context: ReportContext) -> dict[str, Any]:
    """Return the earlier forecasts with what came of them, also as a chart."""
    record = context.ask(REPLAYS, {})
    if context.only_cached and record.reason is NoForecast.NOT_READY:
        raise NotCached
    replays = record.data[::-1]
    lines = [
        {
            "label": "Forecast",
            "values": [each.rate for each in replays],
            "least": [each.low for each in replays],
            "most": [each.high for each in replays],
            "style": "percent",
            "colour": "soft",
            "line": "dashed",
        },
        {
            "label": "Settled at",
            "values": [each.truth for each in replays],
            "style": "percent",
            "colour": "series-1",
        },
    ]
    axes = ("Day of the forecast", "Conversion rate")
    times = [each.at for each in replays]
    return {"record": record, "chart": chart(times, context.query.timezone, axes, lines)}
