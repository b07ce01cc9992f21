"""Reads a report as it may leave the dashboard: the answers to questions without hidden values."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from penstock.base.clock import iso, parse_time
from penstock.base.ids import WorkspaceId
from penstock.base.paging import MAX_PAGE_SIZE
from penstock.base.scalar import tagged
from penstock.funnels.comparisons.words import value_words
from penstock.funnels.definitions.revisions import window_of
from penstock.funnels.definitions.schema import FunnelRecord, SavedDefinition
from penstock.funnels.definitions.titles import step_titles
from penstock.funnels.forecasts.schema import ForecastRecord
from penstock.funnels.forecasts.service import forecasts_of
from penstock.funnels.hidden_values import (
    hide_filter,
    hide_in_sentences,
    hide_values,
    property_words,
)
from penstock.funnels.periods import ChangeRecord, Conclusion, PeriodsRecord
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.schema import NoteCode
from penstock.funnels.questions import PERIODS, RESULTS, VERDICT
from penstock.funnels.results.schema import CohortRecord, ReportQuery
from penstock.funnels.results.service import relevant_notes, report_of
from penstock.funnels.shown_rates import final_from_ms, shown_rate
from penstock.shares.schema import SharedCohortRecord, SharedEarlierRecord, SharedReportRecord

_REMARKS = (NoteCode.DISMISSED_GAP, NoteCode.EQUAL_TIMES, NoteCode.BREAKDOWN_AT)
"""Notes that do not make a report incomplete."""
_EARLIER = ("compareStartAt", "compareEndAt")
_ALL_COHORTS = {"page": "1", "pageSize": str(MAX_PAGE_SIZE)}


def read_report(
    runner: FunnelQueryRunner,
    workspace_id: WorkspaceId,
    funnel: FunnelRecord,
    query: ReportQuery,
    shown: Collection[str],
    name: str = "",
) -> SharedReportRecord:
    """Return a report on a funnel as other people may see it. It blocks.

    shown: properties whose values the workspace shares. name: title of the report; empty for the
    name of the funnel. Raises the same errors as `FunnelQuestion.ask`.
    """
    definition = replace(query.ad_hoc, filters=None).change_record(funnel.definition)
    now_ms = runner.now_ms()
    selected = query.parameters(now_ms, window_s=definition.window_s or 0)
    parameters = RESULTS.query.model_validate(selected | _ALL_COHORTS)
    context = runner.prepare_saved(workspace_id, funnel.id, parameters)
    results = RESULTS.answer(runner, context, parameters)
    compared = selected | _earlier_span(query, now_ms, definition) | {"timezone": query.timezone}
    verdict = VERDICT.answer(runner, context, VERDICT.query.model_validate(compared))
    periods, earlier = None, None
    if _EARLIER[0] in compared:
        periods = PERIODS.answer(runner, context, PERIODS.query.model_validate(compared))
        start_ms, end_ms = (parse_time(compared[name]) for name in _EARLIER)
        before = context.with_params(start_ms=start_ms, end_ms=end_ms)
        earlier = _earlier(periods, runner.receipt(before))
    rate = shown_rate(results.aggregate, has_window=definition.window_s is not None)
    final_ms = final_from_ms(runner, context, rate)
    notes = relevant_notes(runner, context, results.coverage)
    keys = definition.breakdown_properties
    return SharedReportRecord(
        name=name or funnel.name,
        unit=definition.unit_word,
        period=results.period,
        timezone=query.timezone,
        conditions=list(dict.fromkeys(_conditions(query, definition, shown))),
        evaluated_at=results.evaluated_at,
        has_window=definition.window_s is not None,
        is_complete=all(code in _REMARKS for code, _ in notes),
        final_at=None if final_ms is None else iso(final_ms),
        sentences=hide_in_sentences(verdict.sentences, shown),
        steps=step_titles(definition),
        aggregate=results.aggregate,
        breakdown=list(map(property_words, keys)),
        cohorts=list(_cohorts(results.cohorts.data, periods, shown)) if keys else [],
        cohorts_total=results.cohorts.total if keys else 0,
        earlier=earlier,
        forecast=_forecast(runner, context),
        receipt=results.receipt,
    )


def _forecast(runner: FunnelQueryRunner, context: QueryContext) -> ForecastRecord | None:
    """Return the forecast of all units, if it was made within a day. Strangers cannot make one."""
    forecasts = forecasts_of(runner, context, can_make=False)
    if forecasts.record is None:
        return None
    forecast = report_of(runner, context, forecasts).forecast
    return forecast if isinstance(forecast, ForecastRecord) else None


def _earlier_span(query: ReportQuery, now_ms: int, definition: SavedDefinition) -> dict[str, str]:
    """Return the parameters for the earlier period, if there is one that can be compared."""
    window_s = definition.window_s
    span = query.span(now_ms, window_s or 0)
    if query.compare is None or window_s is None or span is None:
        return {}
    if query.compare_error(now_ms, window_s) is not None:
        return {}
    start_ms, end_ms = query.earlier_span(span)
    return dict(zip(_EARLIER, (iso(start_ms), iso(end_ms)), strict=True))


def _conditions(
    query: ReportQuery, definition: SavedDefinition, shown: Collection[str]
) -> Iterator[str]:
    """Describe what the selection leaves out and changes, without hidden values."""
    if query.website_id is not None:
        yield "one website or app"
    if query.segment is not None:
        yield "filtered by a segment"
    for item in query.filters or ():
        yield hide_filter(item, shown)
    for key, value in (query.cohort or {}).items():
        if key in shown and not isinstance(value, dict | list):
            yield f"{key} = {value_words(value)}"
        else:
            yield f"filtered by {property_words(key)}"
    if query.window is not None:
        yield f"conversion window of {window_of(definition)}"
    if query.settled:
        yield f"only settled {definition.unit_word}s"
    if query.internal:
        yield "with internal traffic"


def _earlier(periods: PeriodsRecord, receipt: str | None) -> SharedEarlierRecord:
    is_so_far = _is_so_far(periods)
    return SharedEarlierRecord(
        period=periods.earlier.period,
        summary=periods.summary,
        is_so_far=is_so_far,
        rate=periods.so_far if is_so_far else periods.settled_rate,
        steps=periods.steps,
        receipt=receipt,
    )


def _is_so_far(periods: PeriodsRecord) -> bool:
    return periods.settled_rate.answer is Conclusion.TOO_EARLY


def _cohorts(
    cohorts: list[CohortRecord], periods: PeriodsRecord | None, shown: Collection[str]
) -> Iterator[SharedCohortRecord]:
    changes = {} if periods is None else _changes(periods)
    for cohort, values in zip(cohorts, hide_values(cohorts, shown), strict=True):
        yield SharedCohortRecord.from_object(
            cohort,
            values={property_words(key): value for key, value in values.items()},
            change=changes.get(_key(cohort.cohort)),
        )


def _changes(periods: PeriodsRecord) -> dict[tuple[str, ...], ChangeRecord]:
    """Return the change of each cohort's rate, by the values of the cohort."""
    is_so_far = _is_so_far(periods)
    return {
        _key(each.cohort): each.so_far if is_so_far else each.settled_rate
        for each in periods.cohorts
    }


def _key(cohort: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values of a cohort with their types: `1`, `"1"` and `true` differ."""
    return tuple(map(tagged, cohort.values()))
