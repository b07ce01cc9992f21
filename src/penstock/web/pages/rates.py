"""The one rate that pages show for some units, with the units that it counts."""

from dataclasses import dataclass
from typing import Protocol

from penstock.base.rates import rate
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.trends import last_entry_ms


class Figures(Protocol):
    """The figures of all units, a cohort, a campaign or a time span. Source: `Tally`."""

    @property
    def entered(self) -> int: ...
    @property
    def completed(self) -> int: ...
    @property
    def excluded(self) -> int: ...
    @property
    def settled(self) -> int: ...
    @property
    def early_completions(self) -> int: ...


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
    if has_window and figures.settled:
        return ShownRate(figures.completed - figures.early_completions, figures.settled, "settled")
    whole = figures.entered - figures.excluded
    return ShownRate(figures.completed, whole, "entered", is_so_far=has_window and whole > 0)


def final_from_ms(runner: FunnelQueryRunner, context: QueryContext, rate: ShownRate) -> int | None:
    """Return when a rate so far is final: when the window of the last unit that has entered ends.

    None for a rate that is final already.
    """
    window_s = context.definition.window_s
    if window_s is None or not rate.is_so_far:
        return None
    entry_ms = last_entry_ms(runner, context)
    return None if entry_ms is None else entry_ms + window_s * 1000
