"""The parts of a report: results as in the API, with what the templates need to draw them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.base.clock import parse_time
from penstock.base.errors import Malformed
from penstock.base.ids import WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.funnels.comparisons.schema import CompareQuery, ComparisonRecord
from penstock.funnels.comparisons.service import CompareService
from penstock.funnels.insights.schema import (
    DurationsRecord,
    NextQuery,
    TimingQuery,
    TrendBucketRecord,
    TrendQuery,
)
from penstock.funnels.insights.service import InsightService
from penstock.funnels.outcomes.schema import OutcomesQuery
from penstock.funnels.outcomes.service import OutcomeService
from penstock.funnels.queries.schema import DirectReason, ServedFrom
from penstock.funnels.results.schema import (
    DiagnosticRecord,
    ResultsQuery,
    ResultsRecord,
    StepRecord,
)
from penstock.funnels.results.service import ResultsService
from penstock.funnels.statements.entries import MAX_UNIT_EVENTS
from penstock.web.pages.funnel_page import FunnelPage
from penstock.web.pages.schema import ReportPageQuery, Show

Parts = list[tuple[str, float]]
"""Segments of a bar, for `ui.bar`: kind and share."""


@dataclass(frozen=True, slots=True)
class ReportContext:
    """The query, and the services that answer it."""

    workspace_id: WorkspaceId
    funnel_id: str
    page: FunnelPage
    query: ReportPageQuery
    results: ResultsService
    insights: InsightService
    comparisons: CompareService
    outcomes: OutcomeService

    def result(self, **more: Any) -> ResultsRecord:
        query = ResultsQuery.model_validate(self.page.parameters(**more))
        return self.results.results(self.workspace_id, self.funnel_id, query)


@dataclass(frozen=True, slots=True)
class Bar:
    """One step of the funnel. median_s: from the step before.

    options: index, name and count, when there are several. filters: how many.
    """

    step: StepRecord
    parts: Parts
    median_s: float | None
    options: Sequence[tuple[int, str, int]]
    filters: int
    all_of: bool
    diagnostics: Sequence[DiagnosticRecord]


def overview(context: ReportContext) -> dict[str, Any]:
    """The figures, and the bars with the median time of each step."""
    results = context.result(pageSize=1)
    timing = context.insights.timing(
        context.workspace_id,
        context.funnel_id,
        TimingQuery.model_validate(context.page.parameters()),
    )
    medians = [None, *(step.median_minutes for step in timing.steps)]
    bars = [_bar(context, results, index, _seconds(median)) for index, median in enumerate(medians)]
    notes = coverage_notes(context.page, results)
    return {"results": results, "bars": bars, "notes": notes, "source": _source(context, results)}


_REASONS: Mapping[DirectReason, str] = {
    DirectReason.VISITOR_FUNNEL: "events, because outcomes of visitor funnels are not stored",
    DirectReason.TOO_MANY_MATCHES: "events, because the funnel has more than 64 matches",
    DirectReason.TOUCHES: "events, because the funnel reads first or last touches",
    DirectReason.PROVIDER_EVENTS: "events, because payment events match the funnel",
    DirectReason.BEHIND: "events, because many attempts changed",
}


def _source(context: ReportContext, results: ResultsRecord) -> str | None:
    """What the figures were counted from, in words; None where that says nothing new."""
    if results.served_from is ServedFrom.OUTCOMES:
        return "stored outcomes"
    if results.direct_reason is DirectReason.BUILDING:
        query = OutcomesQuery(website_id=context.query.website_id)
        build = context.outcomes.status(context.workspace_id, context.funnel_id, query)
        percent = round(100 * build.rows_read / build.rows_to_read) if build.rows_to_read else 0
        return f"events, while its outcomes are being stored ({percent} % of this step)"
    return _REASONS.get(results.direct_reason) if results.direct_reason else None


def _bar(context: ReportContext, results: ResultsRecord, index: int, median_s: float | None) -> Bar:
    steps = results.aggregate.steps
    step = steps[index]
    row = context.page.definition.steps[step.row]
    names = [row.value, *(option.value for option in row.or_)]
    overall = context.query.bars == "overall"
    parts = _share_of_entries(steps, index) if overall else _share_of_previous(steps, index)
    return Bar(
        step=step,
        parts=parts,
        median_s=median_s,
        options=[(item.option, names[item.option], item.count) for item in step.options]
        if len(names) > 1
        else [],
        filters=len(row.filters),
        all_of=row.mode is not None,
        diagnostics=[row for row in results.aggregate.diagnostics if row.after_step == step.step],
    )


def _share_of_entries(steps: Sequence[StepRecord], index: int) -> Parts:
    """Of all entries: units that reached the step, are pending or dropped off before it."""
    earlier = steps[:index]
    return _parts(
        steps[0].count,
        steps[index].count,
        sum(step.pending for step in earlier),
        sum(step.dropped_off for step in earlier),
    )


def _share_of_previous(steps: Sequence[StepRecord], index: int) -> Parts:
    """Of the units at the step before: those that reached this one, are pending or dropped off."""
    if index == 0:
        return _share_of_entries(steps, 0)
    previous = steps[index - 1]
    return _parts(previous.count, steps[index].count, previous.pending, previous.dropped_off)


def _parts(total: int, reached: int, pending: int, dropped: int) -> Parts:
    if not total:
        return []
    return [
        ("reached", reached / total),
        ("pending", pending / total),
        ("dropped", dropped / total),
    ]


def coverage_notes(page: FunnelPage, results: ResultsRecord) -> list[str]:
    """The notes of the coverage, with the pending units of the cohort that the page shows.

    The API's note counts the pending units of all cohorts.
    """
    notes = [note for note in results.coverage.notes if not _is_about_pending(note)]
    if not page.has_window:
        unfinished = f"Unfinished {page.noun()} may still convert at any time."
        return [*notes, f"This funnel has no conversion window. {unfinished}"]
    pending = results.aggregate.pending
    if pending:
        units = f"{pending:,} {page.noun(pending)}"
        notes.append(f"{units} may still complete: the conversion window is open.")
    return notes


def _is_about_pending(note: str) -> bool:
    return "may still complete" in note or "no conversion window" in note.lower()


def _seconds(minutes: float | None) -> float | None:
    return None if minutes is None else minutes * 60


def cohorts(context: ReportContext) -> dict[str, Any]:
    query = context.query
    results = context.result(
        page=query.page, pageSize=query.page_size, sort=query.sort, order=query.order
    )
    page = Page(query.page, query.page_size)
    return {
        "cohorts": Listing(results.cohorts.data, page, results.cohorts.total),
        "properties": context.page.definition.breakdown_properties,
    }


def trend(context: ReportContext) -> dict[str, Any]:
    query = context.query
    more: dict[str, Any] = {"interval": query.interval, "timezone": query.timezone}
    trend = context.insights.trend(
        context.workspace_id,
        context.funnel_id,
        TrendQuery.model_validate(context.page.parameters(**more)),
    )
    series = (
        _rates(trend.data, has_window=context.page.has_window)
        if query.measure == "rate"
        else _counts(trend.data, context.page.pending)
    )
    chart = {
        "times": [parse_time(bucket.from_) // 1000 for bucket in trend.data],
        "series": series,
        "zone": query.timezone,
    }
    return {"trend": trend, "chart": chart, "more": more}


def _rates(buckets: Sequence[TrendBucketRecord], *, has_window: bool) -> list[dict[str, Any]]:
    """Two lines that meet: settled rates, and dashed the rates that may still rise."""
    rates = [bucket.conversion_rate for bucket in buckets]
    maturing_buckets = (index for index, bucket in enumerate(buckets) if bucket.maturing)
    first = next(maturing_buckets, len(buckets)) if has_window else len(buckets)
    settled = [rate if index < first else None for index, rate in enumerate(rates)]
    maturing = [rate if index >= first - 1 else None for index, rate in enumerate(rates)]
    lines: list[dict[str, Any]] = [
        {"label": "Conversion rate", "values": settled, "style": "percent"}
    ]
    if first < len(buckets):
        lines.append(
            {
                "label": "May still rise",
                "values": maturing,
                "style": "percent",
                "colour": "series-1",
                "dashed": True,
            }
        )
    return lines


def _counts(buckets: Sequence[TrendBucketRecord], pending: str) -> list[dict[str, Any]]:
    """pending: the word for pending units."""
    series = {
        "Entered": [bucket.entered for bucket in buckets],
        "Completed": [bucket.completed for bucket in buckets],
        pending: [bucket.pending for bucket in buckets],
    }
    return [
        {"label": label, "values": values, "style": "number"} for label, values in series.items()
    ]


def times(context: ReportContext) -> dict[str, Any]:
    n = len(context.page.required)
    pair = _pair(context.query.pair, n)
    more: dict[str, Any] = {} if pair is None else {"from": pair[0], "to": pair[1]}
    timing = context.insights.timing(
        context.workspace_id,
        context.funnel_id,
        TimingQuery.model_validate(context.page.parameters(**more)),
    )
    durations = timing.asked or timing.overall
    return {
        "durations": durations,
        "bins": _bins(durations),
        "pair": pair or (1, n),
        "more": more,
    }


def _pair(text: str | None, n: int) -> tuple[int, int] | None:
    """Two steps of a funnel with n steps; None for any other text."""
    first, _, last = (text or "").partition("-")
    if not last or not 1 <= int(first) < int(last) <= n:
        return None
    return int(first), int(last)


def _bins(durations: DurationsRecord) -> list[tuple[float, float | None, int, float, float]]:
    """Histogram bins: from and to in seconds, units, share of all units and of the largest bin."""
    largest = max((part.units for part in durations.histogram), default=0)
    return [
        (
            part.from_minutes * 60,
            _seconds(part.to_minutes),
            part.units,
            part.units / durations.units,
            part.units / largest,
        )
        for part in durations.histogram
    ]


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps rates to positions on a drawing, 0 to 1."""

    low: float
    high: float

    def at(self, rate: float) -> float:
        return min(1.0, max(0.0, (rate - self.low) / (self.high - self.low)))


def compare(context: ReportContext) -> dict[str, Any]:
    query, properties = context.query, context.page.definition.breakdown_properties
    name = query.property_ if query.property_ in properties else properties[0]
    more: dict[str, Any] = {
        "property": name,
        "baseline": query.baseline if name == query.property_ else None,
    }
    try:
        comparison = _comparison(context, more)
    except Malformed:  # no unit has the baseline in this period: the largest cohort replaces it
        more["baseline"] = None
        comparison = _comparison(context, more)
    return {
        "comparison": comparison,
        "property": name,
        "choices": [(name, name) for name in properties],
        "scale": _scale(comparison),
        "more": more,
    }


def _comparison(context: ReportContext, more: Mapping[str, Any]) -> ComparisonRecord:
    query = CompareQuery.model_validate(context.page.parameters(cohort=False, **more))
    return context.comparisons.compare(context.workspace_id, context.funnel_id, query)


def _scale(comparison: ComparisonRecord) -> Scale:
    """A scale for every interval, with some room on both sides."""
    low = min((cohort.rate_interval.lower for cohort in comparison.cohorts), default=0.0)
    high = max((cohort.rate_interval.upper for cohort in comparison.cohorts), default=1.0)
    room = max(high - low, 0.01) * 0.05
    return Scale(low - room, high + room)


def next_events(context: ReportContext) -> dict[str, Any]:
    n, outcome = len(context.page.required), context.query.outcome
    if not context.page.has_window:
        outcome = "pending"  # nobody drops off
    more: dict[str, Any] = {
        "step": min(context.query.step, n - 1),
        "outcome": None if outcome == "both" else outcome,
    }
    following = context.insights.next(
        context.workspace_id,
        context.funnel_id,
        NextQuery.model_validate(context.page.parameters(**more)),
    )
    return {"next_events": following, "more": more}


@dataclass(frozen=True, slots=True)
class DataQualityIssue:
    """A number of the data quality. words: what it counts; they follow the number.

    quality, property: the conditions for its units; None where events are counted.
    """

    count: int
    words: str
    meaning: str
    quality: str | None = None
    property: str | None = None


def quality(context: ReportContext) -> dict[str, Any]:
    results = context.result(pageSize=1)
    return {"issues": _issues(context.page, results)}


def _issues(page: FunnelPage, results: ResultsRecord) -> list[DataQualityIssue]:
    numbers, noun = results.data_quality, page.noun
    is_attempt_funnel = page.definition.counting_unit == "attempt"

    def events(count: int) -> str:
        return "event" if count == 1 else "events"

    ordering, several = numbers.units_with_ordering_issues, numbers.attempts_with_several_visitors
    issues = [
        DataQualityIssue(
            ordering,
            f"{noun(ordering)} with uncertain event order",
            "At least one of the next three problems.",
            "orderingIssue",
        ),
        DataQualityIssue(
            numbers.sequence_skips,
            f"{events(numbers.sequence_skips)} skipped by sequence number",
            "The number was not greater than the last accepted one.",
            "sequenceSkip",
        ),
        DataQualityIssue(
            numbers.unordered_ties,
            f"{events(numbers.unordered_ties)} skipped as unordered ties",
            "Same timestamp as the previous step, and no sequence numbers that prove the order.",
            "unorderedTie",
        ),
        DataQualityIssue(
            numbers.invalid_sequence_values,
            f"{events(numbers.invalid_sequence_values)} with an invalid sequence number",
            "Sequence numbers must be whole numbers, 0 or greater.",
            "invalidSequenceValue",
        ),
        DataQualityIssue(
            numbers.tied_entries,
            f"{noun(numbers.tied_entries)} with tied entries",
            "Several entries at the same time. Values on which they disagree are Unknown.",
            "tiedEntry",
        ),
        DataQualityIssue(
            numbers.units_over_limit,
            f"{noun(numbers.units_over_limit)} with more events than the limit per unit",
            f"Counted by the first {MAX_UNIT_EVENTS:,} matching events, or by their first entries.",
            "overLimit",
        ),
    ]
    # A property name stands last: one with right-to-left text then affects no other text.
    for name, count in numbers.unknown_entry_values.items():
        issues.append(
            DataQualityIssue(
                count,
                f"{noun(count)} entered without {name}",
                "Counted as Unknown.",
                "unknownEntryValue",
                name,
            )
        )
    for name, count in numbers.conflicting_entry_values.items():
        words = f"{noun(count)} with a later, different {name}"
        issues.append(
            DataQualityIssue(count, words, "They stay in their entry cohort.", "conflict", name)
        )
    if is_attempt_funnel:
        issues += [
            DataQualityIssue(
                several,
                f"{noun(several)} with events from several visitors",
                "Each counts once.",
                "severalVisitors",
            ),
            DataQualityIssue(
                numbers.events_without_attempt_id,
                f"{events(numbers.events_without_attempt_id)} without an attempt ID",
                "They match a step but are not counted: they have no "
                f"{page.definition.attempt_property}",
            ),
            DataQualityIssue(
                numbers.unverified_provider_events,
                f"unverified provider {events(numbers.unverified_provider_events)}",
                "Not counted: they have no verified link to a visitor of the attempt.",
            ),
        ]
    issues.append(
        DataQualityIssue(
            numbers.lost_on_devices,
            f"{events(numbers.lost_on_devices)} lost on devices",
            "Clients dropped them because their queues were full. No report has them.",
        )
    )
    return issues


DETAILS: Mapping[Show, Callable[[ReportContext], dict[str, Any]]] = {
    Show.COHORTS: cohorts,
    Show.TREND: trend,
    Show.TIMES: times,
    Show.COMPARE: compare,
    Show.NEXT: next_events,
    Show.QUALITY: quality,
}
