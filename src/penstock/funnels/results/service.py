"""Computes reports of saved funnels and drafts."""

from functools import partial
from operator import attrgetter
from typing import Any

from penstock.base.ids import WorkspaceId
from penstock.funnels.forecasts.service import Forecasts, forecasts_of
from penstock.funnels.other_tools.service import count_like
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.provenance import head_of
from penstock.funnels.queries.resolve import DraftFunnel
from penstock.funnels.queries.schema import CoverageRecord, GapRecord, NoteCode
from penstock.funnels.results.audience import read_audience
from penstock.funnels.results.equal_times import equal_times_notes
from penstock.funnels.results.impossible_rows import (
    exclusions_of_everybody,
    impossible_rows,
    inactive_rows,
)
from penstock.funnels.results.schema import (
    AggregateRecord,
    ImpossibleReason,
    ImpossibleStepRecord,
    PreviewIn,
    ResultsQuery,
    ResultsRecord,
)
from penstock.funnels.results.shaping import read_total, shape_report
from penstock.funnels.statements.report import build
from penstock.funnels.statements.row_events import row_events


def preview(
    runner: FunnelQueryRunner, workspace_id: WorkspaceId, draft: PreviewIn
) -> ResultsRecord:
    """Report on a draft. Raises the same errors as `FunnelQueryRunner.prepare`."""
    source = DraftFunnel(draft.saved())
    return report_of(runner, runner.prepare(workspace_id, source, draft.selection()))


def read_results(
    runner: FunnelQueryRunner, context: QueryContext, query: ResultsQuery
) -> ResultsRecord:
    """Counts every event accepted before the request.

    The period selects units by their entry. They may complete after the period.
    """
    like = count_like(runner, context, query)
    forecasts = forecasts_of(runner, context) if query.forecast else None
    report = report_of(runner, context, forecasts)
    more: dict[str, Any] = {"receipt": runner.receipt(context)}
    if query.audience:
        more["audience"] = read_audience(runner, context)
    if like is not None:
        more["count_like"] = like
    return report.model_copy(update=more)


def report_of(
    runner: FunnelQueryRunner, context: QueryContext, forecasts: Forecasts | None = None
) -> ResultsRecord:
    """Return the report on a prepared query, which determines all of it.

    forecasts: those of the query, if the report has any.
    """
    if forecasts is not None:
        context = forecasts.context
    definition, params = context.definition, context.params
    result = runner.fetch(context, partial(build, definition, params))
    lost = runner.count_lost_events(context)
    open_windows = read_total(definition, result.rows)["open_windows"]
    report = shape_report(definition, params, result.rows, lost, forecasts)
    remarks = equal_times_notes(definition, params, report)
    return ResultsRecord(
        **head_of(context, result.provenance),
        **dict(report),
        impossible_steps=_impossible_rows(runner, context, report.aggregate),
        coverage=runner.coverage(context, result.provenance, open_windows, remarks),
    )


def _impossible_rows(
    runner: FunnelQueryRunner, context: QueryContext, figures: AggregateRecord
) -> list[ImpossibleStepRecord]:
    """Return the rows that can never act. Counts events only if a row has no effect."""
    definition, params = context.definition, context.params
    inactive = inactive_rows(definition, figures)
    if not inactive or context.profile.first_event_ms is None:
        return []
    statement = row_events(definition, params, context.profile, inactive)
    [counts] = runner.fetch_events(context, statement).rows
    impossible = impossible_rows(definition, inactive, counts)
    return sorted(
        (*impossible, *exclusions_of_everybody(definition, figures)), key=attrgetter("row")
    )


def rows_never_received(
    runner: FunnelQueryRunner, context: QueryContext, report: ResultsRecord
) -> set[int]:
    """Return the rows of a report's impossible steps whose events were never received at all, not
    only in the report's period.
    """
    silent = ImpossibleReason.NO_EVENTS
    rows = [each.row for each in report.impossible_steps if each.reason is silent]
    if not rows:
        return set()
    always = context.with_params(start_ms=None, end_ms=None)
    statement = row_events(always.definition, always.params, always.profile, rows)
    [counts] = runner.fetch_events(always, statement).rows
    impossible = impossible_rows(always.definition, rows, counts)
    return {each.row for each in impossible if each.reason is silent}


def relevant_notes(
    runner: FunnelQueryRunner, context: QueryContext, coverage: CoverageRecord
) -> list[tuple[NoteCode, str]]:
    """Return the notes about coverage with their codes, without those about pending units.

    Imports into websites that never received an event of the funnel are left out: their rejected
    lines change nothing here.
    """
    elsewhere = [gap.at for gap in coverage.gaps if _is_elsewhere(runner, context, gap)]
    return [
        (code, note)
        for note, code in zip(coverage.notes, coverage.note_codes, strict=True)
        if code not in (NoteCode.OPEN_WINDOWS, NoteCode.NO_WINDOW)
        and not (
            code in (NoteCode.GAP, NoteCode.DISMISSED_GAP) and any(at in note for at in elsewhere)
        )
    ]


def _is_elsewhere(runner: FunnelQueryRunner, context: QueryContext, gap: GapRecord) -> bool:
    """Whether a finished import belongs to a website that has no events of the funnel."""
    return (
        gap.kind == "import"
        and gap.state == "done"
        and len(context.params.website_ids) > 1
        and _received_no_step(runner, context, gap.website_id)
    )


def _received_no_step(runner: FunnelQueryRunner, context: QueryContext, website_id: str) -> bool:
    """Whether a website never received an event with the name of a step, at any time."""
    of_website = context.with_params(start_ms=None, end_ms=None, website_ids=(website_id,))
    definition = of_website.definition
    rows = [index for index, row in enumerate(definition.rows) if row.required]
    statement = row_events(definition, of_website.params, of_website.profile, rows)
    [counts] = runner.fetch_events(of_website, statement).rows
    return not any(counts["named"])
