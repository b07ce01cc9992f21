"""Where the rates of open units will settle: a sentence, and a whisker on each bar."""

from typing import Any, NamedTuple

from penstock.funnels.forecasts.schema import NoForecast
from penstock.funnels.results.schema import StepRecord
from penstock.funnels.shown_forecasts import lacks, shown_forecast
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
