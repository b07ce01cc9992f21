"""The statistics of drivers: groups of units that are lost more or less often than the others.

No I/O.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.base.rates import Share
from penstock.funnels.comparisons.proportions import (
    MIN_UNITS,
    Method,
    holm,
    newcombe_interval,
    p_value,
)
from penstock.funnels.comparisons.words import SIGNIFICANCE

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
    """A group with the difference between its rate of loss and the rate of all others.

    interval: 95% confidence interval of the difference. p_value: for this group only. corrected:
    for all tested groups.
    """

    group: Group[K]
    difference: float
    interval: tuple[float, float]
    method: Method
    p_value: float
    corrected: float

    @property
    def is_clear(self) -> bool:
        return self.corrected < SIGNIFICANCE

    @property
    def excess(self) -> float:
        """The lost units beyond those at the rate of the others; negative if fewer are lost."""
        return self.difference * self.group.units


def rank(groups: Iterable[Group[K]]) -> list[Effect[K]]:
    """Test all groups that are large enough, and return the clearest and largest effects first.

    The p-values are corrected for the number of tested groups (Holm). Clear effects come first,
    then the others. Both are sorted by the number of units that they concern.
    """
    tested = [group for group in groups if not group.is_too_small]
    tests = [p_value(group.share, group.others) for group in tested]
    corrected = holm([probability for _, probability in tests])
    effects = [
        Effect(
            group,
            difference=group.share.rate - group.others.rate,
            interval=newcombe_interval(group.share, group.others),
            method=method,
            p_value=probability,
            corrected=of_all,
        )
        for group, (method, probability), of_all in zip(tested, tests, corrected, strict=True)
    ]
    return sorted(effects, key=lambda effect: (not effect.is_clear, -abs(effect.excess)))
