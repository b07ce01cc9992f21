"""Computes reports of saved funnels and drafts."""

from collections.abc import Callable, Collection, Sequence
from functools import partial

from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.coverage import ReadGaps, coverage_of
from penstock.funnels.queries.provenance import Provenance, head_of
from penstock.funnels.queries.resolve import DefinitionSource, DraftFunnel, SavedFunnel
from penstock.funnels.queries.schema import CohortQuery, CoverageRecord
from penstock.funnels.results.impossible_steps import impossible_steps
from penstock.funnels.results.schema import (
    ImpossibleStepRecord,
    PreviewIn,
    ResultsQuery,
    ResultsRecord,
    StepRecord,
)
from penstock.funnels.results.shaping import read_total, shape_report
from penstock.funnels.saved.service import FunnelService
from penstock.funnels.statements.report import build
from penstock.funnels.statements.step_events import step_events

ReadLostEvents = Callable[[Collection[WebsiteId], int | None, int | None], int]
"""A function that returns the number of events that the websites' clients reported as dropped in a
period.
"""


class ResultsService:
    """Funnel reports. Its methods block, so call them from a worker thread."""

    def __init__(
        self,
        runner: FunnelQueryRunner,
        funnels: FunnelService,
        read_gaps: ReadGaps,
        read_lost_events: ReadLostEvents,
    ) -> None:
        self._runner, self._funnels = runner, funnels
        self._read_gaps, self._read_lost_events = read_gaps, read_lost_events

    def results(
        self, workspace_id: WorkspaceId, funnel_id: str, query: ResultsQuery
    ) -> ResultsRecord:
        """Report on a saved funnel. Raises the same errors as `FunnelQueryRunner.prepare`."""
        return self.report(
            self.prepare(workspace_id, SavedFunnel(funnel_id, query.revision), query)
        )

    def prepare(
        self,
        workspace_id: WorkspaceId,
        source: DefinitionSource,
        query: CohortQuery,
        *,
        only_cached: bool = False,
    ) -> QueryContext:
        """Prepare a query for a report and for other figures over the same data.

        See `FunnelQueryRunner.prepare`.
        """
        return self._runner.prepare(
            workspace_id, source, query.selection(), only_cached=only_cached
        )

    def preview(self, workspace_id: WorkspaceId, draft: PreviewIn) -> ResultsRecord:
        """Report on a draft. Raises the same errors as `FunnelQueryRunner.prepare`."""
        source = DraftFunnel(draft.saved())
        return self.report(self._runner.prepare(workspace_id, source, draft.selection()))

    def report(self, context: QueryContext) -> ResultsRecord:
        """Report on a prepared query. Raises Unavailable if the engine does not respond."""
        definition, params = context.definition, context.params
        result = self._runner.fetch(context, partial(build, definition, params))
        lost = self.count_lost_events(context)
        open_windows = read_total(definition, result.rows)["open_windows"]
        report = shape_report(definition, params, result.rows, lost)
        return ResultsRecord.model_validate(
            {
                **head_of(context, result.provenance),
                **dict(report),
                "impossibleSteps": self._impossible_steps(context, report.aggregate.steps),
                "coverage": self.coverage(context, result.provenance, open_windows),
            }
        )

    def _impossible_steps(
        self, context: QueryContext, steps: Sequence[StepRecord]
    ) -> list[ImpossibleStepRecord]:
        """Return the steps that no event can complete. Counts events only if a step has no unit."""
        unreached = [step.step for step in steps if not step.count]
        if not unreached or context.profile.first_event_ms is None:
            return []
        definition, params = context.definition, context.params
        statement = step_events(definition, params, context.profile, unreached)
        [row] = self._runner.fetch_events(context, statement).rows
        return list(impossible_steps(definition, unreached, row))

    def count_lost_events(self, context: QueryContext) -> int:
        """Return the number of events that clients reported as dropped in the period.

        The period here includes the conversion windows of its units.
        """
        params = context.params
        return self._read_lost_events(params.website_ids, params.start_ms, _end_of_windows(context))

    def coverage(
        self, context: QueryContext, provenance: Provenance, open_windows: int
    ) -> CoverageRecord:
        """See `coverage_of`."""
        gaps = self._read_gaps(context.workspace_id, context.params.website_ids)
        return coverage_of(context, provenance, gaps, open_windows)


def _end_of_windows(context: QueryContext) -> int | None:
    """Return the end of the last window, in ms since 1970; None if it or the period has no end."""
    end_ms, window_s = context.params.end_ms, context.definition.window_s
    return None if end_ms is None or window_s is None else end_ms + window_s * 1000
