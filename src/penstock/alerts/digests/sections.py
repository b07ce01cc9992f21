"""Describes the last settled week of a funnel, as a section of a digest."""

from collections.abc import Collection
from datetime import timedelta
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from penstock.accounts.mail.model import MailSection
from penstock.base.calendar import local_time, start_of_day_ms
from penstock.base.ids import WorkspaceId
from penstock.base.rates import percent
from penstock.base.wording import count_of, day_words
from penstock.funnels.definitions.schema import FunnelRecord, SavedDefinition
from penstock.funnels.definitions.titles import step_titles
from penstock.funnels.forecasts.service import LISTED_DAYS, latest_forecasts
from penstock.funnels.hidden_values import hide_in_sentences
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.questions import RESULTS, VERDICT
from penstock.funnels.results.schema import ResultsQuery, ResultsRecord
from penstock.funnels.shown_forecasts import shown_forecast
from penstock.funnels.shown_rates import shown_rate, step_share
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
    start_ms, end_ms = start_of_day_ms(first, zone), start_of_day_ms(last, zone)
    period = {"startAt": start_ms, "endAt": end_ms}
    verdict_query = VerdictQuery.model_validate({**period, "timezone": zone.key})
    verdict = VERDICT.ask(runner, workspace_id, funnel.id, verdict_query)
    sentences = (each for each in verdict.sentences if not _is_about_quality(each))
    lines = hide_in_sentences(sentences, shared)
    results_query = ResultsQuery.model_validate(period)
    results = RESULTS.ask(runner, workspace_id, funnel.id, results_query)
    days = [day_words(at_ms, zone, now_ms) for at_ms in (start_ms, end_ms - 1)]
    selection = {
        "period": "custom",
        "start": first.isoformat(),
        "end": (last - timedelta(days=1)).isoformat(),
        "timezone": zone.key,
    }
    return MailSection(
        funnel.name,
        (*(lines or [_few_words(results)]), *_forecast(runner, workspace_id, funnel)),
        table=_steps(results, funnel.definition) if results.aggregate.entered else (),
        note=f"Entries from {days[0]} to {days[1]}",
        link=f"{base_url}/funnels/{funnel.id}?{urlencode(selection)}",
        link_text="Open the report",
        receipt=results.receipt,
    )


def _forecast(
    runner: FunnelQueryRunner, workspace_id: WorkspaceId, funnel: FunnelRecord
) -> list[str]:
    """Return a sentence with the forecast of the list of funnels, if it was made within a day."""
    latest = latest_forecasts(runner, workspace_id).get((funnel.id, funnel.revision))
    shown = shown_forecast(latest)
    if shown is None:
        return []
    days = f"The rate of the last {LISTED_DAYS} days"
    return [f"{days} will settle at {shown.text}; {shown.record}."]


def _steps(results: ResultsRecord, definition: SavedDefinition) -> tuple[tuple[str, ...], ...]:
    """Return the steps as a table, with the units that the rate of the funnel counts."""
    rate = shown_rate(results.aggregate, has_window=definition.window_s is not None)
    unit = "runs" if results.repeat else f"{results.counting_unit}s"
    head = ("Step", unit.capitalize(), f"Of {rate.of}")
    rows = []
    for title, step in zip(step_titles(definition), results.aggregate.steps, strict=True):
        share = step_share(step, rate)
        units = step.settled if rate.of == "settled" else step.count
        rows.append((title, f"{units:,}", "–" if share is None else percent(share)))
    return (head, *rows)


def _is_about_quality(sentence: SentenceRecord) -> bool:
    return any(each.shows and "quality" in each.shows.parameters for each in sentence.phrases)


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
