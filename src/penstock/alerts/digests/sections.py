"""Describes the last settled week of a funnel, as a section of a digest."""

from collections.abc import Collection, Iterable
from datetime import datetime, time, timedelta
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from penstock.accounts.mail.model import MailSection
from penstock.base.calendar import local_time, period_from
from penstock.base.ids import WorkspaceId
from penstock.base.rates import percent
from penstock.base.wording import count_of, day_words
from penstock.funnels.definitions.schema import FunnelRecord
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.questions import RESULTS, VERDICT
from penstock.funnels.results.schema import ResultsQuery, ResultsRecord
from penstock.funnels.verdicts import SentenceRecord, VerdictQuery

_DAYS = 7


def read_section(
    runner: FunnelQueryRunner,
    workspace_id: WorkspaceId,
    funnel: FunnelRecord,
    zone: ZoneInfo,
    now_ms: int,
    *,
    base_url: str,
    shared: Collection[str],
) -> MailSection:
    """Return the section about the last seven days whose units are all settled.

    shared: properties whose values may leave the dashboard. Raises the same errors as
    `FunnelQuestion.ask`.
    """
    window_s = funnel.window_s or 0
    last = local_time(now_ms - window_s * 1000, zone).date()
    first = last - timedelta(days=_DAYS)
    start_ms, end_ms = period_from(datetime.combine(first, time()), timedelta(days=_DAYS), zone)
    period = {"startAt": start_ms, "endAt": end_ms}
    verdict_query = VerdictQuery.model_validate({**period, "timezone": zone.key})
    verdict = VERDICT.ask(runner, workspace_id, funnel.id, verdict_query)
    lines = _shared_lines(verdict.sentences, shared)
    if not lines:
        results_query = ResultsQuery.model_validate(period)
        lines = [_few_words(RESULTS.ask(runner, workspace_id, funnel.id, results_query))]
    days = [day_words(at_ms, zone, now_ms) for at_ms in (start_ms, end_ms - 1)]
    selection = {
        "period": "custom",
        "start": first.isoformat(),
        "end": (last - timedelta(days=1)).isoformat(),
        "timezone": zone.key,
    }
    return MailSection(
        funnel.name,
        tuple(lines),
        note=f"Entries from {days[0]} to {days[1]}",
        link=f"{base_url}/funnels/{funnel.id}?{urlencode(selection)}",
        link_text="Open the report",
    )


def _shared_lines(sentences: Iterable[SentenceRecord], shared: Collection[str]) -> list[str]:
    """Return the sentences of a verdict about the rate, its change, where and who, without values
    of properties that may not leave the dashboard.
    """
    lines = (
        "".join(
            phrase.text
            for phrase in sentence.phrases
            if phrase.property is None or phrase.property in shared
        )
        for sentence in sentences
        if not any(each.shows and "quality" in each.shows.parameters for each in sentence.phrases)
    )
    return [line for line in lines if line != "."]


def _few_words(results: ResultsRecord) -> str:
    """Describe a week with too few units for the verdict, or of a funnel whose units never settle:
    these rates are marked as rates so far.
    """
    figures = results.aggregate
    unit = "run" if results.repeat else str(results.counting_unit)
    whole = figures.entered - figures.excluded
    if not whole:
        return f"No {unit}s entered."
    completed = f"{count_of(whole, unit)} completed"
    if figures.settled == whole:
        return f"{figures.completed:,} of {completed}, too few to compare."
    return f"So far, {percent(figures.completed / whole)} of {completed}."
