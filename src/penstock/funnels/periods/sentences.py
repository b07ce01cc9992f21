"""The summary of a comparison of periods, as a plain function."""

from penstock.base.clock import parse_time
from penstock.base.rates import Share
from penstock.funnels.comparisons.proportions import MIN_UNITS, newcombe_interval
from penstock.funnels.comparisons.words import change_words, period_before_words
from penstock.funnels.queries.schema import PeriodRecord
from penstock.funnels.results.schema import AggregateRecord


def summary(
    now: AggregateRecord,
    before: AggregateRecord,
    period: PeriodRecord,
    earlier: PeriodRecord,
    unit: str,
) -> str:
    """Return what changed: the rate of completion, and the step whose rate changed most clearly.

    A rate needs at least `MIN_UNITS` settled units in both periods. unit: singular of the counted
    unit.
    """
    counts = (now.settled, before.settled)
    if min(counts) < MIN_UNITS:
        return (
            f"It is too early to compare: {counts[0]:,} {_units(counts[0], unit)} settled in this "
            f"period and {counts[1]:,} in the earlier one. At least {MIN_UNITS} are needed in each."
        )
    rate, rate_before = (Share(part.steps[-1].settled, part.settled) for part in (now, before))
    words = _period_words(period, earlier)
    completed = f"{rate.rate:.1%} of {rate.whole:,} settled {unit}s completed"
    sentences = [f"{completed}, {change_words(rate, rate_before, words)}."]
    if len(now.steps) > 2 and (step := _clearest_step(now, before, words)) is not None:
        sentences.append(step)
    return " ".join(sentences)


def _clearest_step(now: AggregateRecord, before: AggregateRecord, period: str) -> str | None:
    """State the step whose share of the step before changed most; None if no change is clear."""
    clear: list[tuple[float, str]] = []
    for step in range(1, len(now.steps)):
        parts = [
            (report.steps[step].settled, report.steps[step - 1].settled) for report in (now, before)
        ]
        if min(whole for _, whole in parts) < MIN_UNITS:
            continue
        share, share_before = (Share(*part) for part in parts)
        low, high = newcombe_interval(share, share_before)
        if low > 0 or high < 0:
            words = (
                f"The clearest change is from step {step} to {step + 1}: {share.rate:.1%} "
                f"continued, {change_words(share, share_before, period)}."
            )
            clear.append((abs(share.rate - share_before.rate), words))
    return max(clear)[1] if clear else None


def _period_words(period: PeriodRecord, earlier: PeriodRecord) -> str:
    if earlier.start_at is None or earlier.end_at != period.start_at:
        return "in the earlier period"
    return period_before_words(parse_time(earlier.end_at) - parse_time(earlier.start_at))


def _units(count: int, unit: str) -> str:
    return f"{unit} is" if count == 1 else f"{unit}s are"
