"""The values of properties in two periods, and which of them changed otherwise than all others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.base.rates import Share
from penstock.base.scalar import Scalar, tagged
from penstock.funnels.comparisons.proportions import MIN_UNITS, compare_all, move_of, moves_differ
from penstock.funnels.comparisons.words import move_words, value_words
from penstock.funnels.drivers import Property, read_entry_groups
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.results.schema import AggregateRecord, CohortRecord, ResultsRecord, StepRecord


@dataclass(frozen=True, slots=True)
class ValueGroup:
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


class ComparedValue(NamedTuple):
    """A value that units of both periods have, and the shares of its units and of all others that
    completed or, for values at entry, passed the largest loss.

    name: the property.
    """

    name: str
    value: Scalar | None
    now: Share
    before: Share
    others_now: Share
    others_before: Share


def moved_value(values: Sequence[ComparedValue]) -> tuple[str, str] | None:
    """Return the property of the value whose units changed most clearly and otherwise than all
    others, and describe the change; None if there is no such value.

    The p-values of all values are corrected together.
    """
    large = [
        compared
        for compared in values
        if min(share.whole for share in compared if isinstance(share, Share)) >= MIN_UNITS
    ]
    tests = compare_all([(compared.now, compared.before) for compared in large])
    moved = []
    for compared, test in zip(large, tests, strict=True):
        own = move_of(compared.now, compared.before)
        others = move_of(compared.others_now, compared.others_before)
        is_larger = abs(own.difference) > abs(others.difference)
        if test.is_clear and is_larger and moves_differ(own, others):
            moved.append((abs(own.difference) * compared.now.whole, compared, own, others))
    if not moved:
        return None
    _, compared, own, others = max(moved, key=lambda item: item[0])
    return compared.name, move_words(compared.name, compared.value, own, others)


def compared_values(
    report: ResultsRecord, cohorts: Sequence[CohortRecord], earlier: ResultsRecord
) -> list[ComparedValue]:
    """Return the values of breakdown properties in both periods; none if there are too many."""
    if earlier.cohorts.total > len(earlier.cohorts.data):
        return []
    total, total_before = (settled_share(part.aggregate) for part in (report, earlier))
    before = {
        (group.name, tagged(group.value)): group.completed
        for group in value_groups(earlier.cohorts.data, None)
    }
    values = []
    for group in value_groups(cohorts, None):
        own, own_before = group.completed, before.get((group.name, tagged(group.value)))
        if own and own_before and total and total_before:
            others = (_rest(total, own), _rest(total_before, own_before))
            values.append(ComparedValue(group.name, group.value, own, own_before, *others))
    return values


def _rest(total: Share, part: Share) -> Share:
    return Share(total.part - part.part, total.whole - part.whole)


def compared_values_at_entry(
    runner: FunnelQueryRunner, context: QueryContext, earlier: QueryContext, step: int
) -> list[ComparedValue]:
    """Return the frequent values at entry in both periods, with the units that passed a loss."""
    now, before = (
        {
            (group.key.name, tagged(group.key.value)): (group.key, group)
            for group in read_entry_groups(runner, part, step)
            if isinstance(group.key, Property)
        }
        for part in (context, earlier)
    )
    return [
        ComparedValue(
            key.name,
            key.value,
            group.passed,
            before[name][1].passed,
            group.others_passed,
            before[name][1].others_passed,
        )
        for name, (key, group) in now.items()
        if name in before
    ]


def value_groups(cohorts: Sequence[CohortRecord], loss: StepRecord | None) -> list[ValueGroup]:
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
            ValueGroup(
                name,
                same[0].cohort[name],
                Share(completed, settled) if settled else None,
                lost=sum(settled_loss(cohort.steps, step) for cohort, step in own),
                at_risk=sum(cohort.steps[step - 1].settled for cohort, step in own),
            )
        )
    return groups


def settled_share(aggregate: AggregateRecord) -> Share | None:
    """Return the settled units that completed; None if too few units are settled."""
    if aggregate.settled < MIN_UNITS:
        return None
    return Share(aggregate.completed - aggregate.early_completions, aggregate.settled)


def settled_loss(steps: Sequence[StepRecord], step: int) -> int:
    """Return the settled units that reached a step and no later one."""
    return steps[step - 1].settled - steps[step].settled if step < len(steps) else 0
