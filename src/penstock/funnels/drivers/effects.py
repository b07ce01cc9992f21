"""The statistics of drivers: groups of units that are lost more or less often than the others.

No I/O.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.base.rates import Share
from penstock.funnels.comparisons.proportions import MIN_UNITS, Comparison, compare_all

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Group(Generic[K]):
    """Units at risk that have something in common.

    key: the thing that they have in common. lost, units: the number of lost units in the group, and
    of all its units. other_lost, other_units: the same numbers for all other units.
    """

    key: K
    lost: int
    units: int
    other_lost: int
    other_units: int

    @property
    def is_too_small(self) -> bool:
        return min(self.units, self.other_units) < MIN_UNITS

    @property
    def share(self) -> Share:
        return Share(self.lost, self.units)

    @property
    def others(self) -> Share:
        return Share(self.other_lost, self.other_units)


@dataclass(frozen=True, slots=True)
class Effect(Generic[K]):
    """A group, and its rate of loss compared with that of all others."""

    group: Group[K]
    comparison: Comparison

    @property
    def excess(self) -> float:
        """Number of lost units above the number expected at the rate of all other units; negative
        if fewer are lost.
        """
        return self.comparison.difference * self.group.units


def rank(groups: Iterable[Group[K]]) -> list[Effect[K]]:
    """Test all groups that are large enough, and return the clearest and largest effects first.

    The p-values are corrected for the number of tested groups (Holm). Clear effects come first,
    then the others. Both are sorted by the number of units that they concern.
    """
    tested = [group for group in groups if not group.is_too_small]
    comparisons = compare_all([(group.share, group.others) for group in tested])
    effects = map(Effect, tested, comparisons)
    return sorted(effects, key=lambda effect: (not effect.comparison.is_clear, -abs(effect.excess)))
