"""The verdict on a report: its results in sentences.

A sentence appears only if the data support it. A share needs at least `MIN_UNITS` settled units on
each side, and a difference is stated as one only if its 95% interval excludes 0.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import MISSING

from penstock.base.calendar import period_before
from penstock.base.clock import iso, parse_time
from penstock.base.paging import MAX_PAGE_SIZE, Page
from penstock.base.rates import Share, percent
from penstock.base.scalar import Scalar, tagged
from penstock.funnels.comparisons.proportions import MIN_UNITS, compare_all, newcombe_interval
from penstock.funnels.comparisons.words import (
    change_words,
    lead_words,
    period_before_words,
    value_words,
)
from penstock.funnels.definitions.model import CountingUnit
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.parameters import Selection
from penstock.funnels.queries.schema import CohortQuery, HeadRecord, PeriodRecord
from penstock.funnels.results.schema import AggregateRecord, CohortRecord, ResultsRecord, StepRecord
from penstock.funnels.results.service import report_of
from penstock.http.period import InTimezone
from penstock.http.schema import Record


class VerdictQuery(CohortQuery, InTimezone):
    """Query parameters for a verdict."""

    def selection(self) -> Selection:
        return replace(super().selection(), page=Page(1, MAX_PAGE_SIZE))


class ShownBy(StrEnum):
    """A response about a funnel that shows the figures behind a phrase."""

    RESULTS = "results"
    UNITS = "units"
    DRIVERS = "drivers"
    COMPARE = "compare"
    PERIODS = "periods"


class ShowsRecord(Record):
    """The response with the figures behind a phrase."""

    by: ShownBy
    """Last part of its path: `/api/funnels/{funnel_id}/{by}`."""
    parameters: dict[str, Any]
    """Query parameters to add to those of this request. The values are JSON, so encode objects such
    as `cohort` as JSON text.
    """


class PhraseRecord(Record):
    """Part of a sentence. shows: the response with its figures; null for connecting words."""

    text: str
    shows: ShowsRecord | None = None


class SentenceRecord(Record):
    """A sentence of the verdict. text: the texts of its phrases, joined."""

    text: str
    phrases: list[PhraseRecord]


class VerdictRecord(HeadRecord):
    """The results of a report in sentences, as far as its data support them.

    Rates, losses and comparisons are those of settled units. A statement about a share needs 30
    settled units on each side, and a difference is stated only if its 95% interval excludes 0.
    """

    largest_loss: int | None
    """The step after which most settled units dropped off; null if too few units are settled or
    none dropped off.
    """
    sentences: list[SentenceRecord]
    """Empty if there are too few data."""


def read_verdict(
    runner: FunnelQueryRunner, context: QueryContext, query: VerdictQuery
) -> VerdictRecord:
    """Returns the results in sentences, with the response that shows each phrase.

    It compares settled units with those of the period of the same length just before, at the same
    age.
    """
    report = report_of(runner, context)
    loss = largest_loss(report.aggregate)
    earlier = _earlier(runner, context, ZoneInfo(query.timezone))
    sentences = verdict(report, earlier, _all_cohorts(runner, context, report))
    return VerdictRecord(**report.head(), largest_loss=loss and loss.step, sentences=sentences)


def _earlier(
    runner: FunnelQueryRunner, context: QueryContext, zone: ZoneInfo
) -> ResultsRecord | None:
    """Return the report on the period of the same length just before, at the same age.

    None without a period or window. For attempts, only the settled ones are counted, and their
    outcome is final. They are therefore read as of today, so that stored outcomes can answer the
    query. zone: time zone of the period.
    """
    params, window_s = context.params, context.definition.window_s
    if params.start_ms is None or params.end_ms is None or window_s is None:
        return None
    start_ms, end_ms = period_before(params.start_ms, params.end_ms, zone)
    as_of_ms = params.evaluated_at_ms - (params.start_ms - start_ms)
    if context.definition.counting_unit is CountingUnit.VISITOR:
        return report_of(runner, runner.move(context, start_ms, end_ms, as_of_ms))
    settled_end_ms = min(end_ms, as_of_ms - window_s * 1000)
    if settled_end_ms <= start_ms:
        return None
    settled = context.with_params(
        start_ms=start_ms, end_ms=settled_end_ms, page=Page(1, MAX_PAGE_SIZE)
    )
    period = PeriodRecord(start_at=iso(start_ms), end_at=iso(end_ms))
    return report_of(runner, settled).model_copy(update={"period": period})


def _all_cohorts(
    runner: FunnelQueryRunner, context: QueryContext, report: ResultsRecord
) -> Sequence[CohortRecord]:
    """Return all cohorts of a report; none if they do not fit on the largest page."""
    if not context.definition.breakdown_properties or report.cohorts.total > MAX_PAGE_SIZE:
        return []
    if len(report.cohorts.data) < report.cohorts.total:
        report = report_of(runner, context.with_params(page=Page(1, MAX_PAGE_SIZE)))
    return report.cohorts.data


@dataclass(frozen=True, slots=True)
class _Group:
    """The cohorts that share one value of a property, added up.

    name: the property. completed: settled units that completed; None if no unit is settled.
    lost: settled units lost after the step of the largest loss. at_risk: settled units that reached
    this step.
    """

    name: str
    value: Scalar | None
    completed: Share | None
    lost: int
    at_risk: int

    @property
    def words(self) -> str:
        return f"{self.name} = {value_words(self.value)}"


def verdict(
    report: ResultsRecord, earlier: ResultsRecord | None, cohorts: Sequence[CohortRecord]
) -> list[SentenceRecord]:
    """Return what a report says, in one to four sentences, or none.

    earlier: the report on the period of the same length just before, at the same age, if there is
    one. cohorts: all cohorts of the report; empty if there are none or too many to read.
    """
    loss = largest_loss(report.aggregate)
    groups = _groups(cohorts, loss)
    candidates = (
        _completion(report, earlier),
        _loss(report, loss, groups),
        _comparison(groups),
        _ordering(report),
    )
    return [
        SentenceRecord(text="".join(phrase.text for phrase in phrases), phrases=phrases)
        for phrases in candidates
        if phrases
    ]


def largest_loss(aggregate: AggregateRecord) -> StepRecord | None:
    """Return the step after which most settled units dropped off; None if too few are settled."""
    if aggregate.settled < MIN_UNITS:
        return None
    steps = aggregate.steps
    step = max(steps, key=lambda step: settled_loss(steps, step.step))
    return step if settled_loss(steps, step.step) else None


def settled_loss(steps: Sequence[StepRecord], step: int) -> int:
    """Return the settled units that reached a step and no later one."""
    return steps[step - 1].settled - steps[step].settled if step < len(steps) else 0


def _completion(report: ResultsRecord, earlier: ResultsRecord | None) -> list[PhraseRecord]:
    """State how many settled units completed, and how that changed from the previous period."""
    now = _settled_share(report.aggregate)
    if now is None:
        return []
    phrases = [
        _phrase(
            f"{percent(now.rate)} of {_units(report, now.whole, 'settled ')} completed",
            ShownBy.UNITS,
            outcome="completed",
        )
    ]
    before = None if earlier is None else _settled_share(earlier.aggregate)
    if earlier is not None and before is not None and _covers_period(earlier):
        period = earlier.period
        change = _phrase(
            change_words(now, before, _period_words(earlier)),
            ShownBy.PERIODS,
            compareStartAt=period.start_at,
            compareEndAt=period.end_at,
        )
        phrases += [PhraseRecord(text=", "), change]
    return [*phrases, PhraseRecord(text=".")]


def _loss(
    report: ResultsRecord, loss: StepRecord | None, groups: Sequence[_Group]
) -> list[PhraseRecord]:
    """State the step after which most units are lost, and the value that most of the lost units
    have.
    """
    if loss is None:
        return []
    step, lost = loss.step, settled_loss(report.aggregate.steps, loss.step)
    # Visitors who dropped off and may still complete are not among the lost ones.
    only_settled = {} if lost == loss.dropped_off else {"settled": "true"}
    units = _phrase(
        _units(report, lost), ShownBy.UNITS, step=step, outcome="droppedOff", **only_settled
    )
    gap = _phrase(_gap_words(report.aggregate.steps, step), ShownBy.DRIVERS, step=step)
    if len(report.aggregate.steps) > 2:
        phrases = [PhraseRecord(text="The largest loss is "), gap, PhraseRecord(text=": "), units]
    else:
        phrases = [units, PhraseRecord(text=" dropped off "), gap]
    group = _most_of_the_loss(loss, lost, groups)
    if group is not None:
        shown = _phrase(group.words, ShownBy.RESULTS, cohort={group.name: group.value})
        phrases += [PhraseRecord(text=", mostly with "), shown]
    return [*phrases, PhraseRecord(text=".")]


def _gap_words(steps: Sequence[StepRecord], step: int) -> str:
    """Describe the gap between a step and the next, by their own names if they have any."""
    before, after = steps[step - 1], steps[step]
    if before.row_count is not MISSING:  # Steps count in any order.
        return f"from {step} to {step + 1} steps done"
    if before.name or after.name:
        return f"from {before.name or f'step {step}'} to {after.name or f'step {step + 1}'}"
    return f"from step {step} to {step + 1}" if len(steps) > 2 else "between the two steps"


def _most_of_the_loss(loss: StepRecord, lost: int, groups: Sequence[_Group]) -> _Group | None:
    """Return the value that more than half of the lost units have, and that loses more than the
    others. If several do, return the value that differs most. lost: number of lost units.
    """
    standing_out = []
    for group in groups:
        others = loss.settled - group.at_risk
        if 2 * group.lost <= lost or min(group.at_risk, others) < MIN_UNITS:
            continue
        own = Share(group.lost, group.at_risk)
        rest = Share(lost - group.lost, others)
        if newcombe_interval(own, rest)[0] > 0:
            standing_out.append((own.rate - rest.rate, group))
    return max(standing_out, key=lambda pair: pair[0])[1] if standing_out else None


def _comparison(groups: Sequence[_Group]) -> list[PhraseRecord]:
    """State the clearest difference between a value and the most frequent value of its property.

    The p-values of all values are corrected together.
    """
    pairs = list(_against_baseline(groups))
    tests = compare_all([(share, base) for _, share, _, base in pairs])
    clear = [
        (test, group, baseline)
        for (group, _, baseline, _), test in zip(pairs, tests, strict=True)
        if test.is_clear
    ]
    if not clear:
        return []
    test, group, baseline = max(clear, key=lambda item: abs(item[0].difference))
    shown = _phrase(
        lead_words(group.name, group.value, baseline.value, test),
        ShownBy.COMPARE,
        property=group.name,
        baseline=baseline.value,
    )
    return [shown, PhraseRecord(text=".")]


def _against_baseline(groups: Sequence[_Group]) -> Iterator[tuple[_Group, Share, _Group, Share]]:
    """Yield each value with enough settled units, and the most frequent value of its property."""
    large = [
        (group, group.completed)
        for group in groups
        if group.completed is not None and group.completed.whole >= MIN_UNITS
    ]
    for name in dict.fromkeys(group.name for group, _ in large):
        of_property = [pair for pair in large if pair[0].name == name]
        baseline = max(of_property, key=lambda pair: pair[1].whole)
        for group, share in of_property:
            if group is not baseline[0]:
                yield group, share, *baseline


def _ordering(report: ResultsRecord) -> list[PhraseRecord]:
    count = report.data_quality.units_with_ordering_issues
    if not count:
        return []
    verb = "has" if count == 1 else "have"
    text = f"{_units(report, count)} {verb} uncertain event order"
    return [
        _phrase(text, ShownBy.UNITS, quality="orderingIssue"),
        PhraseRecord(text="."),
    ]


def _groups(cohorts: Sequence[CohortRecord], loss: StepRecord | None) -> list[_Group]:
    """Add up the cohorts by each value of each property, in the order of the cohorts."""
    members: dict[tuple[str, str], list[CohortRecord]] = {}
    for cohort in cohorts:
        for name, value in cohort.cohort.items():
            members.setdefault((name, tagged(value)), []).append(cohort)
    groups = []
    for (name, _), same in members.items():
        own = [] if loss is None else [(cohort, loss.step) for cohort in same]
        settled = sum(cohort.settled for cohort in same)
        completed = sum(cohort.completed - cohort.early_completions for cohort in same)
        groups.append(
            _Group(
                name,
                same[0].cohort[name],
                Share(completed, settled) if settled else None,
                lost=sum(settled_loss(cohort.steps, step) for cohort, step in own),
                at_risk=sum(cohort.steps[step - 1].settled for cohort, step in own),
            )
        )
    return groups


def _settled_share(aggregate: AggregateRecord) -> Share | None:
    """Return the settled units that completed; None if too few units are settled."""
    if aggregate.settled < MIN_UNITS:
        return None
    return Share(aggregate.completed - aggregate.early_completions, aggregate.settled)


def _covers_period(report: ResultsRecord) -> bool:
    """Whether events are retained from the whole period."""
    return not report.coverage.period_begins_before_history


def _period_words(earlier: ResultsRecord) -> str:
    start, end = earlier.period.start_at, earlier.period.end_at
    if start is None or end is None:
        return "in the period before"
    return period_before_words(parse_time(end) - parse_time(start))


def _phrase(text: str, by: ShownBy, **parameters: Any) -> PhraseRecord:
    return PhraseRecord(text=text, shows=ShowsRecord(by=by, parameters=parameters))


def _units(report: ResultsRecord, count: int, kind: str = "") -> str:
    """Return a count of units: `1,200 settled attempts`."""
    unit = "run" if report.repeat else report.counting_unit
    return f"{count:,} {kind}{unit}{'' if count == 1 else 's'}"
