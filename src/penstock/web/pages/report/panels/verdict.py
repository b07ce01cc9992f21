"""The verdict on the report, in sentences whose phrases link to the figures behind them."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.funnels.questions import VERDICT
from penstock.funnels.verdicts import PhraseRecord, ShownBy, ShowsRecord
from penstock.web.pages.report.panels.context import ReportContext


class Phrase(NamedTuple):
    """Part of a sentence. href: None for words that only connect.

    is_detail: whether the link changes only the tab below the bars.
    """

    text: str
    href: str | None = None
    is_detail: bool = False


def verdict(context: ReportContext) -> dict[str, Any]:
    record = context.ask(VERDICT, context.chosen(VERDICT))
    return {"sentences": [_sentence(context, item.phrases) for item in record.sentences]}


def _sentence(context: ReportContext, phrases: Sequence[PhraseRecord]) -> list[Phrase]:
    return [
        _link(context, phrase.text, phrase.shows) if phrase.shows else Phrase(phrase.text)
        for phrase in phrases
    ]


def _link(context: ReportContext, text: str, shows: ShowsRecord) -> Phrase:
    """Return a phrase with a link to its figures."""
    page, parameters = context.page, shows.parameters
    match shows.by:
        case ShownBy.UNITS:
            return Phrase(text, page.units(**parameters))
        case ShownBy.RESULTS if "cohort" in parameters:
            cohort = {**(context.query.cohort or {}), **parameters["cohort"]}
            return Phrase(text, page.view.address(cohort=_json(cohort), page=None))
        case ShownBy.RESULTS:
            return Phrase(text, page.view.address(**parameters, page=None))
        case ShownBy.PERIODS:
            href = page.view.address(compare="previous", compareStart=None, page=None)
            return Phrase(text, f"{href}#periods")
        case ShownBy.COMPARE:
            baseline = _json(parameters["baseline"])
            changed = {"property": parameters["property"], "baseline": baseline}
            return Phrase(text, page.view.address(show="compare", **changed), is_detail=True)
        case ShownBy.DRIVERS:
            return Phrase(text, page.view.address(show="drivers", **parameters), is_detail=True)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
