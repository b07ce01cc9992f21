"""Rows of a funnel that can never act: steps that no event can complete, and the like."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.base.wording import listed
from penstock.funnels.definitions.model import Definition, Match, MatchType, Row
from penstock.funnels.results.schema import AggregateRecord, ImpossibleReason, ImpossibleStepRecord

_NOUNS = {
    MatchType.PAGEVIEW: "page views of",
    MatchType.SCREEN_VIEW: "screen views of",
    MatchType.EVENT: "events named",
    MatchType.TRANSACTION: "transactions named",
}


class _Counts(NamedTuple):
    """Event counts of a match. See `statements.row_events`."""

    match: Match
    named: int
    matching: int
    identified: int
    counted: int


def inactive_rows(definition: Definition, figures: AggregateRecord) -> list[int]:
    """Return the indexes of the rows without an effect on a report: steps that no unit reached,
    diagnostic rows that counted nothing, and exclusion rows of gaps where no unit was excluded.
    """
    steps = {step.step: step for step in figures.steps}
    inactive = {row.row for row in figures.diagnostics if not row.events}
    for index, row in enumerate(definition.rows):
        step = steps.get(_step_at(definition, index))
        if step is None:
            continue
        counted, excluded = step.count, step.excluded
        if definition.in_any_order:
            counted, excluded = sum(option.count for option in step.options), figures.excluded
        if (row.required and not counted) or (row.exclude and not excluded):
            inactive.add(index)
    return sorted(inactive)


def exclusions_of_everybody(
    definition: Definition, figures: AggregateRecord
) -> Iterator[ImpossibleStepRecord]:
    """Yield the exclusion rows that match all that can complete the step after them, which no unit
    reached. An event that matches both excludes.
    """
    for index, row in enumerate(definition.rows):
        if not row.exclude or definition.in_any_order:
            continue
        step = _step_at(definition, index)
        following = definition.steps[step]
        if not figures.steps[step].count and all(
            any(_covers(excluding, match) for excluding in row.matches)
            for match in following.matches
        ):
            yield ImpossibleStepRecord(
                row=index,
                step=step,
                reason=ImpossibleReason.EXCLUDES_NEXT_STEP,
                events=0,
                message=f"Each event that can complete step {step + 1}{_in_brackets(following)} "
                f"also matches the exclusion before it, so no {definition.unit_word} can pass.",
            )


def impossible_rows(
    definition: Definition, rows: Sequence[int], counts: Mapping[str, Any]
) -> Iterator[ImpossibleStepRecord]:
    """Yield the rows that no event can make act.

    rows: indexes of rows without an effect. counts: the result of `statements.row_events`. A plain
    row is impossible if all its options are, and a group if any of its parts is.
    """
    numbers = zip(*(counts[name] for name in _Counts._fields[1:]), strict=True)
    for index in rows:
        row = definition.rows[index]
        matches = [_Counts(match, *next(numbers)) for match in row.matches]
        impossible = [item for item in matches if not item.counted]
        if not impossible or (not row.all_of and len(impossible) < len(matches)):
            continue
        # The option that comes closest explains the most.
        closest = max(impossible, key=lambda item: (item.identified, item.matching, item.named))
        reason = _reason(closest)
        yield ImpossibleStepRecord(
            row=index,
            step=_step_at(definition, index),
            reason=reason,
            events=closest.matching or closest.named,
            message=_message(definition, index, closest, reason),
        )


def _step_at(definition: Definition, index: int) -> int:
    """Return the number of a row's step, or of the step before the row; 0 above the first."""
    return sum(row.required for row in definition.rows[: index + 1])


def _covers(excluding: Match, match: Match) -> bool:
    """Whether every event that one match accepts is accepted by another, as far as it is plain."""
    if excluding.type is not match.type:
        return False
    same_name = excluding.value == match.value or excluding.accepts_any_name
    return same_name and set(excluding.filters) <= set(match.filters)


def _reason(counts: _Counts) -> ImpossibleReason:
    if not counts.named:
        return ImpossibleReason.NO_EVENTS
    if not counts.matching:
        return ImpossibleReason.FILTERS
    return ImpossibleReason.UNVERIFIED if counts.identified else ImpossibleReason.NO_ATTEMPT_ID


def _message(definition: Definition, index: int, counts: _Counts, reason: ImpossibleReason) -> str:
    wanted = counts.match
    events = "events" if wanted.accepts_any_name else f"{_NOUNS[wanted.type]} {wanted.value}"
    result = f"so {_effect(definition, index)}."
    match reason:
        case ImpossibleReason.NO_EVENTS:
            return f"There are no {events}, {result}"
        case ImpossibleReason.FILTERS:
            return f"0 of {counts.named:,} {events} pass the filters, {result}"
        case ImpossibleReason.UNVERIFIED:
            return (
                f"0 of {counts.identified:,} {events} have a verified link to a visitor, {result}"
            )
        case _:
            keys = listed(definition.attempt_keys)
            return f"0 of {counts.matching:,} {events} have a value of {keys}, {result}"


def _effect(definition: Definition, index: int) -> str:
    row, step = definition.rows[index], _step_at(definition, index)
    label = _in_brackets(row)
    if row.exclude and definition.in_any_order:
        return f"the exclusion{label} excludes no {definition.unit_word}"
    if row.exclude:
        return f"the exclusion after step {step}{label} excludes no {definition.unit_word}"
    if row.diagnostic:
        position = f"after step {step}" if step else "above step 1"
        return f"the diagnostic row {position}{label} counts nothing"
    return f"step {step}{label} can never be reached"


def _in_brackets(row: Row) -> str:
    return f" ({row.name})" if row.name else ""
