"""Steps that no unit can reach, because no event can complete them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.base.wording import listed
from penstock.funnels.definitions.model import Definition, Match, MatchType
from penstock.funnels.results.schema import ImpossibleReason, ImpossibleStepRecord

_NOUNS = {
    MatchType.PAGEVIEW: "page views of",
    MatchType.SCREEN_VIEW: "screen views of",
    MatchType.EVENT: "events named",
    MatchType.TRANSACTION: "transactions named",
}


class _Counts(NamedTuple):
    """Event counts of a match. See `statements.step_events`."""

    match: Match
    named: int
    matching: int
    counted: int


def impossible_steps(
    definition: Definition, steps: Sequence[int], row: Mapping[str, Any]
) -> Iterator[ImpossibleStepRecord]:
    """Yield the steps that no event can complete.

    steps: steps that no unit reached. row: the result of `statements.step_events`. A plain step is
    impossible if all its options are, and a group if any of its parts is.
    """
    numbers = zip(row["named"], row["matching"], row["counted"], strict=True)
    for step in steps:
        required = definition.steps[step - 1]
        counts = [_Counts(match, *next(numbers)) for match in required.matches]
        impossible = [item for item in counts if not item.counted]
        if not impossible or (not required.all_of and len(impossible) < len(counts)):
            continue
        # The option that comes closest explains the most.
        closest = max(impossible, key=lambda item: (item.matching, item.named))
        reason = _reason(closest)
        yield ImpossibleStepRecord(
            step=step,
            reason=reason,
            events=closest.matching or closest.named,
            message=_message(definition, step, closest, reason),
        )


def _reason(counts: _Counts) -> ImpossibleReason:
    if not counts.named:
        return ImpossibleReason.NO_EVENTS
    return ImpossibleReason.NO_ATTEMPT_ID if counts.matching else ImpossibleReason.FILTERS


def _message(definition: Definition, step: int, counts: _Counts, reason: ImpossibleReason) -> str:
    wanted = counts.match
    events = "events" if wanted.accepts_any_name else f"{_NOUNS[wanted.type]} {wanted.value}"
    name = definition.steps[step - 1].name
    result = f"so step {step}{f' ({name})' if name else ''} can never be reached."
    match reason:
        case ImpossibleReason.NO_EVENTS:
            return f"There are no {events}, {result}"
        case ImpossibleReason.FILTERS:
            return f"0 of {counts.named:,} {events} pass the filters, {result}"
        case ImpossibleReason.NO_ATTEMPT_ID:
            keys = listed(definition.attempt_keys)
            return f"0 of {counts.matching:,} {events} have a value of {keys}, {result}"
