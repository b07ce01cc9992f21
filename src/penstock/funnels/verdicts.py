"""The verdict on a report: its results in sentences.

A sentence appears only if the data support it. A share needs at least `MIN_UNITS` settled units on
each side, and a difference is stated as one only if its 95% interval excludes 0.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import pairwise
from math import log
from operator import not_
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import MISSING, Field, field_validator, model_validator

from penstock.base.calendar import period_before
from penstock.base.clock import iso
from penstock.base.paging import MAX_PAGE_SIZE, Page
from penstock.base.rates import Share, percent
from penstock.funnels.compared_values import (
    ComparedValue,
    ValueGroup,
    compared_values,
    compared_values_at_entry,
    moved_value,
    settled_loss,
    settled_share,
    value_groups,
)
from penstock.funnels.comparisons.proportions import (
    MIN_UNITS,
    compare_all,
    move_of,
    newcombe_interval,
)
from penstock.funnels.comparisons.words import (
    change_words,
    lead_words,
    period_words,
    points_changed,
)
from penstock.funnels.definitions.model import CountingUnit
from penstock.funnels.forecasts.service import forecasts_of
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.parameters import Selection
from penstock.funnels.queries.schema import CohortQuery, HeadRecord, PeriodRecord
from penstock.funnels.results.schema import AggregateRecord, CohortRecord, ResultsRecord, StepRecord
from penstock.funnels.results.service import report_of
from penstock.funnels.shown_forecasts import shown_forecast
from penstock.http.period import AS_TIME, InTimezone, read_time_ms
from penstock.http.schema import Record, RuleBroken

_MAX_NAME_CHARS = 40
"""Maximum length of an event's name in a sentence. A step with a longer one has its number."""


class VerdictQuery(CohortQuery, InTimezone):
    """Query parameters for a verdict."""

    compare_start_at: Annotated[int | None, AS_TIME] = None
    """Start of the period to compare with, before startAt. Requires `startAt` and `compareEndAt`.
    Default: the period of the same length just before.
    """
    compare_end_at: Annotated[int | None, AS_TIME] = None
    """End of the period to compare with. Requires `compareStartAt`."""
    forecast: bool = False
    """true: also say where the rate will settle, if units are open. The first request of a day
    takes longer.
    """

    _read_compared = field_validator("compare_start_at", "compare_end_at", mode="before")(
        read_time_ms
    )

    @model_validator(mode="after")
    def _has_earlier_period(self) -> "VerdictQuery":
        start_ms, end_ms = self.compare_start_at, self.compare_end_at
        if (start_ms, end_ms) == (None, None):
            return self
        if start_ms is None or end_ms is None or self.start_at is None:
            raise RuleBroken(
                "required", "Send startAt, endAt, compareStartAt and compareEndAt together."
            )
        if not start_ms < min(end_ms, self.start_at):
            raise RuleBroken(
                "not_earlier", "compareStartAt must be before compareEndAt and before startAt."
            )
        return self

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
    properties: Annotated[tuple[str, ...], Field(exclude_if=not_)] = ()
    """Properties whose values the text states. Present only if there are any."""


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

    It compares settled units with those of an earlier period at the same age: from `compareStartAt`
    to `compareEndAt`, or the period of the same length just before. It compares nothing without
    `startAt` and `endAt`, or without a conversion window.
    """
    report = report_of(runner, context, forecasts_of(runner, context) if query.forecast else None)
    loss = largest_loss(report.aggregate)
    earlier = _earlier(runner, context, query)
    cohorts = _all_cohorts(runner, context, report)
    values: Sequence[ComparedValue] = []
    if earlier is not None and loss is not None and _has_changed(report, earlier.report):
        values = compared_values(report, cohorts, earlier.report)
        values = values or compared_values_at_entry(runner, context, earlier.context, loss.step)
    sentences = verdict(report, earlier and earlier.report, cohorts, values)
    return VerdictRecord(**report.head(), largest_loss=loss and loss.step, sentences=sentences)


class _Earlier(NamedTuple):
    """The query about the period before, and its report."""

    context: QueryContext
    report: ResultsRecord


def _earlier(
    runner: FunnelQueryRunner, context: QueryContext, query: VerdictQuery
) -> _Earlier | None:
    """Return the report on the period to compare with, at the same age.

    None without a period or window. For attempts, only the settled ones are counted, and their
    outcome is final. They are therefore read as of today, so that stored outcomes can answer the
    query.
    """
    params, window_s = context.params, context.definition.window_s
    if params.start_ms is None or params.end_ms is None or window_s is None:
        return None
    if query.compare_start_at is not None and query.compare_end_at is not None:
        start_ms, end_ms = query.compare_start_at, query.compare_end_at
    else:
        zone = ZoneInfo(query.timezone)
        start_ms, end_ms = period_before(params.start_ms, params.end_ms, zone)
    as_of_ms = params.evaluated_at_ms - (params.start_ms - start_ms)
    all_cohorts = context.with_params(page=Page(1, MAX_PAGE_SIZE))
    if context.definition.counting_unit is CountingUnit.VISITOR:
        moved = runner.move(all_cohorts, start_ms, end_ms, as_of_ms)
        return _Earlier(moved, report_of(runner, moved))
    settled_end_ms = min(end_ms, as_of_ms - window_s * 1000)
    if settled_end_ms <= start_ms:
        return None
    settled = all_cohorts.with_params(start_ms=start_ms, end_ms=settled_end_ms)
    period = PeriodRecord(start_at=iso(start_ms), end_at=iso(end_ms))
    report = report_of(runner, settled).model_copy(update={"period": period})
    return _Earlier(settled, report)


def _all_cohorts(
    runner: FunnelQueryRunner, context: QueryContext, report: ResultsRecord
) -> Sequence[CohortRecord]:
    """Return all cohorts of a report; none if they do not fit on the largest page."""
    if not context.definition.breakdown_properties or report.cohorts.total > MAX_PAGE_SIZE:
        return []
    if len(report.cohorts.data) < report.cohorts.total:
        report = report_of(runner, context.with_params(page=Page(1, MAX_PAGE_SIZE)))
    return report.cohorts.data


def verdict(
    report: ResultsRecord,
    earlier: ResultsRecord | None,
    cohorts: Sequence[CohortRecord],
    values: Sequence[ComparedValue] = (),
) -> list[SentenceRecord]:
    """Return what a report says: the rate and its change, where, who, and how certain the order of
    events is. It leaves out what the data do not support.

    earlier: the report on the period of the same length just before, at the same age, if there is
    one. cohorts: all cohorts of the report; empty if there are none or too many to read. values:
    the values that may explain a change.
    """
    loss = largest_loss(report.aggregate)
    groups = value_groups(cohorts, loss)
    candidates = (
        _completion(report, earlier),
        _forecast(report),
        _largest_change(report, earlier) or _loss(report, loss, groups),
        _moved_value(values, loss) or _comparison(groups),
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


def _completion(report: ResultsRecord, earlier: ResultsRecord | None) -> list[PhraseRecord]:
    """State how many settled units completed, and how that changed from the previous period."""
    now = settled_share(report.aggregate)
    if now is None:
        return []
    phrases = [
        _phrase(
            f"{percent(now.rate)} of {_units(report, now.whole, 'settled ')} completed",
            ShownBy.UNITS,
            outcome="completed",
        )
    ]
    shares = _settled_shares(report, earlier)
    if earlier is not None and shares is not None:
        words = change_words(*shares, period_words(report.period, earlier.period))
        change = _phrase(
            words.change,
            ShownBy.PERIODS,
            compareStartAt=earlier.period.start_at,
            compareEndAt=earlier.period.end_at,
        )
        phrases += [PhraseRecord(text=", "), change, PhraseRecord(text=words.origin)]
    return [*phrases, PhraseRecord(text=".")]


def _forecast(report: ResultsRecord) -> list[PhraseRecord]:
    """State where the rate of all units will settle, if the report has a forecast."""
    shown = shown_forecast(report.forecast)
    if shown is None:
        return []
    phrase = _phrase(shown.text, ShownBy.RESULTS, forecast=True)
    record = PhraseRecord(text=f"; {shown.record}.")
    return [PhraseRecord(text="The rate will settle at "), phrase, record]


def _settled_shares(
    report: ResultsRecord, earlier: ResultsRecord | None
) -> tuple[Share, Share] | None:
    """Return the settled units of both periods that completed; None if too few are settled, or if
    events of the earlier period are not retained.
    """
    now = settled_share(report.aggregate)
    before = None if earlier is None else settled_share(earlier.aggregate)
    if earlier is None or now is None or before is None or not _covers_period(earlier):
        return None
    return now, before


def _has_changed(report: ResultsRecord, earlier: ResultsRecord | None) -> bool:
    """Whether the rate of settled units clearly differs from that of the period before."""
    shares = _settled_shares(report, earlier)
    return shares is not None and move_of(*shares).is_clear


def _largest_change(report: ResultsRecord, earlier: ResultsRecord | None) -> list[PhraseRecord]:
    """State the step with the largest part of a clear change of the rate.

    The rate is the product of the steps' rates, so a step's part of the change is the ratio of the
    logarithms.
    """
    steps = report.aggregate.steps
    if earlier is None or len(steps) < 3 or not _has_changed(report, earlier):
        return []
    shares = [_continued(part.aggregate.steps) for part in (report, earlier)]
    if not all(share.part for period in shares for share in period):
        return []
    parts = [log(now.rate / before.rate) for now, before in zip(*shares, strict=True)]
    largest = max(parts, key=lambda part: part / sum(parts))
    step = parts.index(largest) + 1
    now, before = (period[step - 1] for period in shares)
    if min(now.whole, before.whole) < MIN_UNITS or not move_of(now, before).is_clear:
        return []
    gap = _phrase(_gap_words(steps, step), ShownBy.DRIVERS, step=step)
    start = "Most of it is" if largest / sum(parts) > 0.5 else "The largest part of it is"
    change = points_changed(now.rate - before.rate)
    return [PhraseRecord(text=f"{start} "), gap, PhraseRecord(text=f", {change}.")]


def _continued(steps: Sequence[StepRecord]) -> list[Share]:
    """Return for each step but the last the settled units that reached it and the next one."""
    return [Share(after.settled, before.settled) for before, after in pairwise(steps)]


def _loss(
    report: ResultsRecord, loss: StepRecord | None, groups: Sequence[ValueGroup]
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
        verb = "was" if lost == 1 else "were"
        phrases = [units, PhraseRecord(text=f" {verb} lost on the way "), gap]
    group = _most_of_the_loss(loss, lost, groups)
    if group is not None:
        shown = _phrase_of(
            group.name, group.words, ShownBy.RESULTS, cohort={group.name: group.value}
        )
        phrases += [PhraseRecord(text=", mostly with "), shown]
    return [*phrases, PhraseRecord(text=".")]


def _gap_words(steps: Sequence[StepRecord], step: int) -> str:
    """Describe the gap between a step and the next."""
    if steps[0].row_count is not MISSING:  # Steps count in any order.
        return f"from {step} to {step + 1} steps done"
    before, after = (_step_words(each) for each in steps[step - 1 : step + 1])
    return f"from {before} to {after}"


def _step_words(step: StepRecord) -> str:
    """Return the name of a step or, if it has none, of its event. A step with several events has
    only its number.
    """
    name = step.name or (step.value if len(step.options) < 2 else "")
    return name if 0 < len(name) <= _MAX_NAME_CHARS else f"step {step.step}"


def _most_of_the_loss(
    loss: StepRecord, lost: int, groups: Sequence[ValueGroup]
) -> ValueGroup | None:
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


def _moved_value(values: Sequence[ComparedValue], loss: StepRecord | None) -> list[PhraseRecord]:
    """State the value whose units changed otherwise than all others."""
    moved = moved_value(values)
    if moved is None or loss is None:
        return []
    shown = _phrase_of(moved[0], moved[1], ShownBy.DRIVERS, step=loss.step)
    return [shown, PhraseRecord(text=".")]


def _comparison(groups: Sequence[ValueGroup]) -> list[PhraseRecord]:
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
    shown = _phrase_of(
        group.name,
        lead_words(group.name, group.value, baseline.value, test),
        ShownBy.COMPARE,
        property=group.name,
        baseline=baseline.value,
    )
    return [shown, PhraseRecord(text=".")]


def _against_baseline(
    groups: Sequence[ValueGroup],
) -> Iterator[tuple[ValueGroup, Share, ValueGroup, Share]]:
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


def _covers_period(report: ResultsRecord) -> bool:
    """Whether events are retained from the whole period."""
    return not report.coverage.period_begins_before_history


def _phrase(text: str, by: ShownBy, **parameters: Any) -> PhraseRecord:
    return PhraseRecord(text=text, shows=ShowsRecord(by=by, parameters=parameters))


def _phrase_of(name: str, text: str, by: ShownBy, **parameters: Any) -> PhraseRecord:
    """Return a phrase that states values of a property."""
    return _phrase(text, by, **parameters).model_copy(update={"properties": (name,)})


def _units(report: ResultsRecord, count: int, kind: str = "") -> str:
    """Return a count of units: `1,200 settled attempts`."""
    unit = "run" if report.repeat else report.counting_unit
    return f"{count:,} {kind}{unit}{'' if count == 1 else 's'}"
