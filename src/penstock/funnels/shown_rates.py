"""The one rate that reports show for some units, with the units that it counts, and the bars."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.base.rates import rate
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.results.schema import StepRecord
from penstock.funnels.trends import last_entry_ms

Parts = list[tuple[str, float]]
"""Segments of a bar: kind and share."""


class Figures(Protocol):
    """The figures of all units, a cohort or a campaign; None without a funnel. Source: `Tally`."""

    @property
    def entered(self) -> int | None: ...
    @property
    def completed(self) -> int | None: ...
    @property
    def excluded(self) -> int | None: ...
    @property
    def settled(self) -> int | None: ...
    @property
    def early_completions(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class ShownRate:
    """A rate: part of whole. is_so_far: whether it may still rise, because no unit has settled yet.

    of: what the whole is, in words: `settled` or, of all that are not excluded, `entered`.
    """

    part: int
    whole: int
    of: str
    is_so_far: bool = False

    @property
    def rate(self) -> float | None:
        return rate(self.part, self.whole)


def shown_rate(figures: Figures, *, has_window: bool) -> ShownRate:
    """Return the rate of settled units. If there are none, return the rate so far.

    has_window: without a conversion window no unit settles, so all that entered count.
    """
    completed = figures.completed or 0
    if has_window and figures.settled:
        return ShownRate(completed - (figures.early_completions or 0), figures.settled, "settled")
    whole = (figures.entered or 0) - (figures.excluded or 0)
    return ShownRate(completed, whole, "entered", is_so_far=has_window and whole > 0)


def final_from_ms(runner: FunnelQueryRunner, context: QueryContext, rate: ShownRate) -> int | None:
    """Return when a rate so far is final: when the window of the last unit that has entered ends.

    None for a rate that is final already.
    """
    window_s = context.definition.window_s
    if window_s is None or not rate.is_so_far:
        return None
    entry_ms = last_entry_ms(runner, context)
    return None if entry_ms is None else entry_ms + window_s * 1000


def step_share(step: StepRecord, rate: ShownRate) -> float | None:
    """Return the share of the units of a rate that reached a step."""
    return step.settled_from_start if rate.of == "settled" else step.conversion_from_start


def bar_parts(steps: Sequence[StepRecord], index: int, first: int = 0) -> Parts:
    """Return the shares that reached a step, may still reach it, or left before it.

    index: position of the step. first: position of the step whose units are the whole bar.
    """
    total, earlier = steps[first].count, steps[first:index]
    counts = {
        "reached": steps[index].count,
        "pending": sum(step.pending for step in earlier),
        "dropped": sum(step.dropped_off for step in earlier),
        "excluded": sum(step.excluded for step in earlier),
    }
    return [(kind, count / total) for kind, count in counts.items()] if total else []
