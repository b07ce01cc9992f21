"""The verdict on the report, in sentences whose phrases link to the figures behind them."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.funnels.definitions.builtins import cohort_of
from penstock.funnels.questions import TREND, VERDICT
from penstock.funnels.verdicts import PhraseRecord, ShownBy, ShowsRecord
from penstock.web.pages.charts import chart
from penstock.web.pages.report.panels.annotations import annotations_of, with_marks
from penstock.web.pages.report.panels.context import ReportContext
from penstock.web.pages.report.panels.periods import earlier_span
from penstock.web.pages.report.panels.trend import rate_series


class Phrase(NamedTuple):
    """Part of a sentence. href: None for words that only connect.

    is_detail: whether the link changes only the tab below the bars. is_strong: whether a phrase
    without a link stands out as those with one do. is_doubt: whether it is about the quality of the
    data.
    """

    text: str
    href: str | None = None
    is_detail: bool = False
    is_strong: bool = False
    is_doubt: bool = False


_RATE = ShowsRecord(by=ShownBy.UNITS, parameters={"outcome": "completed"})


def verdict(context: ReportContext) -> dict[str, Any]:
    """Return the sentences, without the rate, which stands beside them, and a small trend.

    loss: the step with the largest loss, if there is one.
    """
    record = context.ask(VERDICT, {**context.chosen(VERDICT), **earlier_span(context)})
    phrases = [item.phrases for item in record.sentences]
    if phrases and phrases[0][0].shows == _RATE:
        phrases[0] = phrases[0][2:]  # the change, if it is known, after the rate and a comma
    sentences = [_sentence(context, item) for item in phrases if item]
    trend = context.ask(TREND, context.query.buckets())
    axes = (f"{trend.interval.capitalize()} of entry", "Conversion rate")
    times = [bucket.from_ for bucket in trend.data]
    return {
        "sentences": sentences,
        "loss": record.largest_loss,
        "interval": trend.interval,
        "trend": len(times) > 1
        and with_marks(
            chart(times, context.query.timezone, axes, rate_series(context, trend)),
            annotations_of(context, trend.data),
        ),
    }


def _sentence(context: ReportContext, phrases: Sequence[PhraseRecord]) -> list[Phrase]:
    return [
        _link(context, text, phrase.shows) if phrase.shows else Phrase(text)
        for phrase in phrases
        for text in [_with_names(context, phrase.text)]
    ]


def _with_names(context: ReportContext, text: str) -> str:
    """Return a text with the names of saved cohorts instead of the fields that stand for them."""
    page = context.page
    for key in page.definition.breakdown_properties:
        text = text if cohort_of(key) is None else text.replace(key, page.property_name(key))
    return text


def _link(context: ReportContext, text: str, shows: ShowsRecord) -> Phrase:
    """Return a phrase with a link to its figures."""
    page, parameters = context.page, shows.parameters
    match shows.by:
        case ShownBy.UNITS:
            is_doubt = "quality" in parameters
            return Phrase(text, page.units(**parameters), is_doubt=is_doubt)
        case ShownBy.RESULTS if "cohort" in parameters:
            cohort = {**(context.query.cohort or {}), **parameters["cohort"]}
            return Phrase(text, page.view.address(cohort=_json(cohort), page=None))
        case ShownBy.RESULTS:
            return Phrase(text, page.view.address(**parameters, page=None))
        case ShownBy.PERIODS if context.query.compare:
            return Phrase(text, is_strong=True)
        case ShownBy.PERIODS:
            address = page.view.address(compare="previous", compareStart=None, page=None)
            return Phrase(text, address)
        case ShownBy.COMPARE:
            baseline = _json(parameters["baseline"])
            changed = {"property": parameters["property"], "baseline": baseline}
            return Phrase(text, page.view.address(show="compare", **changed), is_detail=True)
        case ShownBy.DRIVERS:
            return Phrase(text, page.view.address(show="drivers", **parameters), is_detail=True)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
