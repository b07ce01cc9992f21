"""The overview, with figures and a bar for each step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from penstock.funnels.definitions.schema import SavedStep
from penstock.funnels.definitions.titles import row_names, row_title
from penstock.funnels.outcomes.schema import OutcomesQuery
from penstock.funnels.periods import ChangeRecord
from penstock.funnels.queries.schema import DirectReason, ServedFrom
from penstock.funnels.queries.single_flight_cache import NotCached
from penstock.funnels.questions import TIMING
from penstock.funnels.results.schema import DiagnosticRecord, ResultsRecord, StepRecord
from penstock.funnels.results.service import relevant_notes
from penstock.funnels.shown_rates import Parts, ShownRate, bar_parts, final_from_ms, step_share
from penstock.funnels.verdicts import largest_loss, settled_loss
from penstock.web.pages.funnel_page import (
    FunnelPage,
    no_window_note,
    why_impossible,
)
from penstock.web.pages.report.panels.context import ReportContext
from penstock.web.pages.report.panels.outcomes import Build, build_of
from penstock.web.pages.report.panels.periods import (
    Compared,
    compared,
    earlier_span,
    obstacle_to_compare,
)
from penstock.web.pages.report.panels.segments import Segment, segments


@dataclass(frozen=True, slots=True)
class SegmentBar:
    """The bar of one cohort at a step. share: its units that reached the step, as in `Bar`.

    count: number of these units, of those that are settled if the share is about them.
    """

    segment: Segment
    share: float | None
    count: int
    change: ChangeRecord | None


@dataclass(frozen=True, slots=True)
class Bar:
    """One step of the funnel. median_s: median time since the previous step, in seconds.

    title: as in `FunnelPage.step_titles`. row_name: the name of its row or, if it has none, the
    names of its options or parts. may_reach: units that may
    still reach the step, which is the hatched part. from_start, from_previous: shares of settled
    units or, without a window, of all units. options: index, name and count of each option, if
    there are several. filters: number of filters. is_largest_loss: whether most of the lost units
    stopped here. excluded_by: what excludes units after the step. impossible: why no event can
    complete the step, in words. change: the change of `from_start` from the earlier period.
    segments: the bar of each shown cohort.
    """

    step: StepRecord
    title: str
    row_name: str
    parts: Parts
    may_reach: int
    from_start: float | None
    from_previous: float | None
    median_s: float | None
    options: Sequence[tuple[int, str, int]]
    filters: int
    all_of: bool
    is_largest_loss: bool
    settled_loss: int
    diagnostics: Sequence[DiagnosticRecord]
    excluded_by: Sequence[str]
    impossible: Markup | None
    change: ChangeRecord | None
    segments: Sequence[SegmentBar]


def overview(context: ReportContext) -> dict[str, Any]:
    """Return the figures, and the bars with each step's median time."""
    results = context.report
    rate = context.page.rate(results.aggregate)
    comparison = compared(context)
    shown = segments(context)
    return {
        "results": results,
        "bars": _bars(context, rate, comparison, shown),
        "notes": [
            *_coverage_notes(context, results),
            *(comparison.record.notes if comparison else ()),
        ],
        "rate": rate,
        "final_from_ms": final_from_ms(context.runner, context.shared_query, rate),
        "source": _source(results),
        "build": _build(context),
        "compared": comparison,
        "earlier_span": earlier_span(context),
        "obstacle": obstacle_to_compare(context),
        "segments": shown,
    }


_REASONS: Mapping[DirectReason, str] = {
    DirectReason.VISITOR_FUNNEL: "events, because outcomes of visitor funnels are not stored",
    DirectReason.INTERNAL_TRAFFIC: "events, because internal traffic is left out",
    DirectReason.TOO_MANY_MATCHES: "events, because the funnel has more than 64 matches",
    DirectReason.TOUCHES: "events, because the funnel reads first or last touches",
    DirectReason.VISITORS: "events, because the funnel reads traits, cohorts or first times",
    DirectReason.PROVIDER_EVENTS: "events, because payment events match the funnel",
    DirectReason.BEHIND: "events, because many attempts changed",
    DirectReason.BUILDING: "events, while its outcomes are being stored",
}


def _source(results: ResultsRecord) -> str | None:
    """Return the source of the figures in words; None if it is not worth mentioning."""
    if results.served_from is ServedFrom.OUTCOMES:
        return "stored outcomes"
    return _REASONS.get(results.direct_reason) if results.direct_reason else None


def _build(context: ReportContext) -> Build | None:
    """Return the build that these results may have requested, for the current revision."""
    page, outcomes = context.page, context.outcomes
    if page.past_revision is not None or not outcomes.has_build(context.shared_query):
        return None
    if context.only_cached:
        raise NotCached  # only the event store knows the progress of a build
    query = OutcomesQuery(websiteId=context.query.website_id)
    return build_of(outcomes, page.view.workspace_id, page.funnel.id, query)


def _bars(
    context: ReportContext,
    rate: ShownRate,
    comparison: Compared | None,
    shown: Sequence[Segment],
) -> list[Bar]:
    page, results = context.page, context.report
    aggregate = results.aggregate
    steps, loss = aggregate.steps, largest_loss(aggregate)
    medians = [None, *(step.median_minutes for step in context.ask(TIMING, {}).steps)]
    impossible = why_impossible(context.runner, context.shared_query, page.definition, results)
    changes = comparison.steps(rate) if comparison else [None] * len(steps)
    bars = []
    for index, (step, median, change) in enumerate(zip(steps, medians, changes, strict=True)):
        row = page.definition.steps[step.row]
        names = row_names(row)
        overall = context.query.bars == "overall"
        first = 0 if overall else max(index - 1, 0)
        bars.append(
            Bar(
                step=step,
                title=page.step_titles[index],
                row_name=row_title(row),
                parts=bar_parts(steps, index, first),
                may_reach=sum(step.pending for step in steps[first:index]),
                from_start=step_share(step, rate),
                from_previous=step.settled_from_previous
                if rate.of == "settled"
                else step.conversion_from_previous,
                median_s=None if median is None else median * 60,
                options=[(item.option, names[item.option], item.count) for item in step.options]
                if len(names) > 1
                else [],
                filters=len(row.filters),
                all_of=row.mode is not None,
                is_largest_loss=step is loss and len(steps) > 2,
                settled_loss=settled_loss(steps, step.step),
                diagnostics=[row for row in aggregate.diagnostics if row.after_step == step.step],
                excluded_by=_exclusions(page.definition.steps[step.row + 1 :]),
                impossible=impossible.get(step.row),
                change=change,
                segments=[_segment_bar(page, each, index, comparison) for each in shown],
            )
        )
    return bars


def _segment_bar(
    page: FunnelPage, segment: Segment, index: int, comparison: Compared | None
) -> SegmentBar:
    """Return the bar of a cohort at a step. index: position of the step, from 0."""
    rate, step = page.rate(segment.cohort), segment.cohort.steps[index]
    changes = comparison and comparison.cohort_steps(segment.cohort.cohort, rate)
    return SegmentBar(
        segment=segment,
        share=step_share(step, rate),
        count=step.settled if rate.of == "settled" else step.count,
        change=changes[index] if changes else None,
    )


def _exclusions(later: Sequence[SavedStep]) -> list[str]:
    """Return what excludes units between a step and the next. later: the rows after the step."""
    reasons = []
    for row in later:
        if row.exclude:
            reasons.append(row_title(row))
        if row.required:
            other = "any other event" if row.strict == "all" else "another step out of order"
            return [*reasons, other] if row.strict else reasons
    return reasons


def _coverage_notes(context: ReportContext, results: ResultsRecord) -> list[str]:
    """Return the notes about coverage, without that about pending units, who have their figure."""
    page = context.page
    relevant = relevant_notes(context.runner, context.shared_query, results.coverage)
    notes = [text for _, text in relevant]
    return notes if page.has_window else [*notes, no_window_note(page.noun())]
