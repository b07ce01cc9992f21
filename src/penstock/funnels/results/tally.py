"""The figures of a funnel, computed from its counts in one place and rounded once.

Eligible units are those that are not excluded, and settled units are eligible units whose windows
have ended and that are not open. Every rate is over one of them, and None if there are none.
Source: semantics, "Outcome" and "Exclusions and strict order".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from pydantic import BaseModel

from penstock.base.clock import MS_PER_MINUTE
from penstock.base.rates import Share, rate, round_rate
from penstock.funnels.results.schema import RangeRecord


@dataclass(frozen=True, slots=True)
class StepTally:
    """The units that reached one step.

    pending, excluded, dropped_off: units that got no further. eligible, settled: those of `count`
    that are not excluded later, and whose windows have ended. start: the first step; None for the
    first step itself, as is `before`, the step before.
    """

    count: int
    pending: int
    excluded: int
    dropped_off: int
    eligible: int
    settled: int
    start: "StepTally | None" = None
    before: "StepTally | None" = None

    @property
    def conversion_from_start(self) -> float | None:
        return rate(self.eligible, (self.start or self).eligible)

    @property
    def conversion_from_previous(self) -> float | None:
        return None if self.before is None else rate(self.eligible, self.before.eligible)

    @property
    def settled_from_start(self) -> float | None:
        return rate(self.settled, (self.start or self).settled)

    @property
    def settled_from_previous(self) -> float | None:
        return None if self.before is None else rate(self.settled, self.before.settled)


@dataclass(frozen=True, slots=True)
class Tally:
    """The units of a funnel or of one of its cohorts, counted by how far they got.

    reached: number of units that reached each step. pendings, exclusions: number of units that got
    no further than each step except the last, and whose window is open or that were excluded.
    early_completions: completed units whose window is open. reopened: number of units that dropped
    off after each step except the last, and are open: a visitor entered again and may still
    complete. reopened_exclusions: excluded units that are open. median_ms: median time to complete,
    if it was computed.
    """

    reached: Sequence[int]
    pendings: Sequence[int]
    exclusions: Sequence[int]
    early_completions: int
    reopened: Sequence[int]
    reopened_exclusions: int
    median_ms: float | None = None

    @classmethod
    def of_steps(cls, row: Mapping[str, Any]) -> "Tally":
        """Return the tally of a cohort. row: its columns and figures, by name."""
        return cls(
            row["counts"],
            row["pendings"],
            row["excluded"],
            row["early"],
            row["reopened"],
            row["reopened_excluded"],
            row.get("median_ms"),
        )

    @classmethod
    def of_totals(cls, row: Mapping[str, Any]) -> "Tally":
        """Return the tally of a row whose columns add up all steps."""
        return cls(
            (row["entered"], row["completed"]),
            (row["pending"],),
            (row["excluded"],),
            row["early"],
            (row["reopened"],),
            row["reopened_excluded"],
            row.get("median_ms"),
        )

    @property
    def entered(self) -> int:
        return self.reached[0]

    @property
    def completed(self) -> int:
        return self.reached[-1]

    @property
    def pending(self) -> int:
        return sum(self.pendings)

    @property
    def excluded(self) -> int:
        return sum(self.exclusions)

    @property
    def eligible(self) -> int:
        return self.entered - self.excluded

    @property
    def settled(self) -> int:
        return self.eligible - self.pending - self.early_completions - sum(self.reopened)

    @property
    def open(self) -> int:
        """The units that may still complete: pending ones, and visitors who entered again."""
        return self.pending + sum(self.reopened) + self.reopened_exclusions

    @property
    def dropped_off(self) -> int:
        return self.eligible - self.completed - self.pending

    @property
    def completions(self) -> Share:
        """The completed units, out of all eligible units."""
        return Share(self.completed, self.eligible)

    @property
    def settled_completions(self) -> Share:
        """The settled units that completed, out of all settled units."""
        return Share(self.completed - self.early_completions, self.settled)

    @property
    def conversion_rate(self) -> float | None:
        return rate(self.completed, self.eligible)

    @property
    def settled_rate(self) -> float | None:
        return rate(self.completed - self.early_completions, self.settled)

    @property
    def final_bounds(self) -> tuple[float, float] | None:
        """The lowest and the highest conversion rate once all windows have closed.

        They also hold if pending units are excluded. None if all units are excluded for good.
        """
        whole = self.eligible + self.reopened_exclusions
        return (self.completed / whole, (self.completed + self.open) / whole) if whole else None

    @property
    def final_rate(self) -> RangeRecord | None:
        """The same bounds; None if the rate cannot change any more."""
        bounds = self.final_bounds if self.open else None
        return bounds and RangeRecord.rounded(bounds)

    @property
    def median_completion_minutes(self) -> float | None:
        if not self.completed or self.median_ms is None:
            return None
        return self.median_ms / MS_PER_MINUTE

    def by_step(self) -> Iterator[StepTally]:
        """Yield the tally of each step."""
        pendings, excluded = [*self.pendings, 0], [*self.exclusions, 0]
        eligible = _minus_later(self.reached, excluded)
        not_pending = _minus_later(eligible, [*self.pendings, 0])
        # A unit that is not pending and got no further dropped off.
        dropped_off = [*(now - after for now, after in pairwise(not_pending)), 0]
        settled = _minus_later(not_pending, [*self.reopened, self.early_completions])
        start: StepTally | None = None
        before: StepTally | None = None
        for index, count in enumerate(self.reached):
            before = StepTally(
                count,
                pendings[index],
                excluded[index],
                dropped_off[index],
                eligible[index],
                settled[index],
                start,
                before,
            )
            start = start or before
            yield before


NOTHING = Tally((0, 0), (0,), (0,), 0, (0,), 0)
"""The tally of no units."""


def _minus_later(reached: Sequence[int], stopped: Sequence[int]) -> list[int]:
    """Return the units that reached each step, minus those that stopped there or later.

    stopped: number of units by their furthest step.
    """
    later = list(accumulate(reversed(stopped)))[::-1]
    return [count - gone for count, gone in zip(reached, later, strict=True)]


def figures_of(counted: Tally | StepTally, record: type[BaseModel]) -> dict[str, Any]:
    """Return those fields of a record that follow from the counts, by name."""
    return {
        name: getattr(counted, name) for name in record.model_fields if hasattr(type(counted), name)
    }


RATES = ("conversion_rate", "settled_rate")
"""The figures of a file that are rates."""


def in_file(name: str, figure: Any) -> Any:
    """Return a figure as files have it: with the decimals of a response, if it is a rate."""
    return figure if figure is None or name not in RATES else round_rate(figure)
