"""The comparison with an earlier period, whose figures stand beside those of the report."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from penstock.base.clock import iso
from penstock.base.paging import MAX_PAGE_SIZE
from penstock.base.scalar import tagged
from penstock.funnels.periods import (
    ChangeRecord,
    CohortChangeRecord,
    Conclusion,
    PeriodsRecord,
    StepChangeRecord,
)
from penstock.funnels.questions import PERIODS
from penstock.funnels.shown_rates import ShownRate
from penstock.web.pages.report.panels.context import ReportContext


@dataclass
class Compared:
    """The comparison with an earlier period. span_ms: start and end of that period.

    is_so_far: whether it is about all that entered, because too few have settled.
    """

    record: PeriodsRecord
    span_ms: tuple[int, int]
    is_so_far: bool

    def total(self) -> ChangeRecord:
        """Return the change of the rate of all units."""
        return self.record.so_far if self.is_so_far else self.record.settled_rate

    def steps(self, rate: ShownRate) -> list[ChangeRecord | None]:
        """Return the change of each step's share. None if it is not about the units of the rate."""
        return [self._step(step, rate) for step in self.record.steps]

    def cohort(self, key: Mapping[str, Any]) -> ChangeRecord | None:
        """Return the change of a cohort's rate; None if it did not enter in both periods."""
        change = self._cohorts.get(_key(key))
        if change is None:
            return None
        return change.so_far if self.is_so_far else change.settled_rate

    def cohort_steps(
        self, key: Mapping[str, Any], rate: ShownRate
    ) -> list[ChangeRecord | None] | None:
        """Return the changes of a cohort's steps. See `steps`."""
        change = self._cohorts.get(_key(key))
        return None if change is None else [self._step(step, rate) for step in change.steps]

    def _step(self, step: StepChangeRecord, rate: ShownRate) -> ChangeRecord | None:
        if rate.is_so_far != self.is_so_far:
            return None
        return step.so_far if self.is_so_far else step.from_start

    @cached_property
    def _cohorts(self) -> Mapping[tuple[str, ...], CohortChangeRecord]:
        return {_key(change.cohort): change for change in self.record.cohorts}


def _key(cohort: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(map(tagged, cohort.values()))


def obstacle_to_compare(context: ReportContext) -> str | None:
    """Return why the page cannot compare the period that it was asked for; None if it can."""
    page, query = context.page, context.query
    if query.compare is None:
        return None
    if page.definition.window_s is None:
        return (
            f"Without a conversion window, no {page.noun(1)} settles, so the later period would "
            "always look worse."
        )
    return query.compare_error(page.view.now_ms, page.definition.window_s)


def compared(context: ReportContext) -> Compared | None:
    """Return the comparison that the page was asked for; None without one that is possible."""
    query = context.query
    if query.compare is None or obstacle_to_compare(context):
        return None
    more = {**earlier_span(context), "timezone": query.timezone}
    record = context.ask(PERIODS, more, context.prepare(page=1, pageSize=MAX_PAGE_SIZE))
    return Compared(
        record,
        query.earlier_span(_span(context)),
        is_so_far=record.settled_rate.answer is Conclusion.TOO_EARLY,
    )


def earlier_span(context: ReportContext) -> dict[str, str]:
    """Return the parameters for the earlier period that the page was asked for, if any."""
    if context.query.compare is None or obstacle_to_compare(context):
        return {}
    start_ms, end_ms = context.query.earlier_span(_span(context))
    return {"compareStartAt": iso(start_ms), "compareEndAt": iso(end_ms)}


def _span(context: ReportContext) -> tuple[int, int]:
    span = context.query.span(context.page.view.now_ms, context.page.definition.window_s or 0)
    assert span is not None  # otherwise there is an obstacle
    return span
