"""Compares a period with an earlier one. Source: funnel semantics, "Comparison of periods at equal
age".
"""

from collections.abc import Iterator

from penstock.base.clock import iso
from penstock.base.ids import WorkspaceId
from penstock.base.scalar import tagged
from penstock.funnels.comparisons.proportions import MIN_UNITS, Share, newcombe_interval
from penstock.funnels.periods.schema import (
    Answer,
    ChangeRecord,
    CohortChangeRecord,
    EarlierPeriodRecord,
    PeriodsQuery,
    PeriodsRecord,
    StepChangeRecord,
)
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.parameters import unfit_parameters
from penstock.funnels.queries.resolve import SavedFunnel
from penstock.funnels.queries.schema import CohortKeyRecord, HeadRecord
from penstock.funnels.results.schema import AggregateRecord, CohortRecord, RangeRecord
from penstock.funnels.results.service import ResultsService
from penstock.funnels.statements.query import Statement
from penstock.warehouse.queries import load

_LATE_SHARE = 0.1
"""Share of late events from which the earlier period looks better than it did then."""


class PeriodsService:
    """Comparisons of periods. Its methods block, so call them from a worker thread."""

    def __init__(self, runner: FunnelQueryRunner, results: ResultsService) -> None:
        self._runner, self._results = runner, results

    def compare(
        self, workspace_id: WorkspaceId, funnel_id: str, query: PeriodsQuery
    ) -> PeriodsRecord:
        """Compare two periods of a funnel.

        Raises Malformed if the funnel has no conversion window, and the same errors as
        `FunnelQueryRunner.prepare`.
        """
        source = SavedFunnel(funnel_id, query.revision)
        context = self._runner.prepare(workspace_id, source, query.selection())
        if context.definition.window_s is None:
            raise unfit_parameters(
                {
                    "window": "Without a conversion window, no unit settles. "
                    "Send a window, such as 30d."
                }
            )
        earlier_selection = query.earlier(context.params.evaluated_at_ms)
        earlier_context = self._runner.prepare(workspace_id, source, earlier_selection)
        report, earlier = map(self._results.report, (context, earlier_context))
        head = {name: getattr(report, name) for name in HeadRecord.model_fields}
        return PeriodsRecord(
            **head,
            aggregate=report.aggregate,
            earlier=EarlierPeriodRecord(
                period=earlier.period,
                evaluated_at=iso(earlier_context.params.evaluated_at_ms),
                aggregate=earlier.aggregate,
            ),
            settled_rate=_completion_change(report.aggregate, earlier.aggregate),
            steps=list(_step_changes(report.aggregate, earlier.aggregate)),
            cohorts=list(_cohort_changes(report.cohorts.data, earlier.cohorts.data)),
            notes=list(self._notes(earlier_context)),
        )

    def _notes(self, earlier: QueryContext) -> Iterator[str]:
        params = earlier.params
        statement = Statement(
            load("penstock.funnels.periods", "count_late_events"),
            {
                "websites": list(params.website_ids),
                "start": params.start_ms,
                "end": params.end_ms,
            },
        )
        [row] = self._runner.fetch_events(earlier, statement).rows
        if row["events"] and row["late"] / row["events"] >= _LATE_SHARE:
            yield (
                f"{row['late'] / row['events']:.0%} of the earlier period's events arrived more "
                "than an hour after they happened, so it looks better here than it did then."
            )


def change(now: Share | None, before: Share | None) -> ChangeRecord:
    """Return the change of a rate. None: no unit is settled."""
    rates = {
        "rate": None if now is None else round(now.rate, 4),
        "rate_before": None if before is None else round(before.rate, 4),
    }
    if now is None or before is None:
        return ChangeRecord(
            **rates, difference=None, difference_interval=None, answer=Answer.TOO_EARLY
        )
    low, high = newcombe_interval(now, before)
    if min(now.whole, before.whole) < MIN_UNITS:
        answer = Answer.TOO_EARLY
    elif low > 0:
        answer = Answer.HIGHER
    else:
        answer = Answer.LOWER if high < 0 else Answer.NO_CLEAR_DIFFERENCE
    return ChangeRecord(
        **rates,
        difference=round(now.rate - before.rate, 4),
        difference_interval=RangeRecord(lower=round(low, 4), upper=round(high, 4)),
        answer=answer,
    )


def _completion_change(now: AggregateRecord, before: AggregateRecord) -> ChangeRecord:
    shares = [_share(part.steps[-1].settled, part.settled) for part in (now, before)]
    return change(*shares)


def _step_changes(now: AggregateRecord, before: AggregateRecord) -> Iterator[StepChangeRecord]:
    for place, (step, step_before) in enumerate(zip(now.steps, before.steps, strict=True)):
        previous = None
        if place:
            previous = change(
                _share(step.settled, now.steps[place - 1].settled),
                _share(step_before.settled, before.steps[place - 1].settled),
            )
        yield StepChangeRecord(
            step=step.step,
            count=step.count,
            count_before=step_before.count,
            from_start=change(
                _share(step.settled, now.settled), _share(step_before.settled, before.settled)
            ),
            from_previous=previous,
        )


def _cohort_changes(
    now: list[CohortRecord], before: list[CohortRecord]
) -> Iterator[CohortChangeRecord]:
    earlier = {_key(cohort): cohort for cohort in before}
    for cohort in now:
        if (same := earlier.get(_key(cohort))) is not None:
            yield CohortChangeRecord(
                cohort=cohort.cohort,
                label=cohort.label,
                entered=cohort.entered,
                entered_before=same.entered,
                settled_rate=_completion_change(cohort, same),
            )


def _key(cohort: CohortKeyRecord) -> tuple[str, ...]:
    """Return the values of a cohort with their types: `1`, `"1"` and `true` differ."""
    return tuple(map(tagged, cohort.cohort.values()))


def _share(part: int, whole: int) -> Share | None:
    return Share(part, whole) if whole else None
