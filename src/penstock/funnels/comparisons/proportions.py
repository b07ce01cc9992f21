"""Statistics of proportions: confidence intervals, significance and Bayesian tests. No I/O.

The formulas are written out here, because scipy would add 125 MB to the installation. The tests
compare the results with scipy.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import erfc, exp, hypot, lgamma, log, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

from penstock.base.rates import Share

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CONFIDENCE_LEVEL = 0.95

MIN_UNITS = 30
"""Minimum number of units of which a share is meaningful."""
SIGNIFICANCE = 0.05

_Z = NormalDist().inv_cdf((1 + CONFIDENCE_LEVEL) / 2)
_SMALLEST_EXPECTED = 5
_EQUAL = 1e-7
"""Relative difference below which the probabilities of two tables count as equal."""
_CHUNK = 1_000_000
"""Number of terms of a series in memory at a time."""


class Method(StrEnum):
    """A significance test for a difference."""

    Z = "z"
    FISHER = "fisher"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A share compared with a baseline.

    difference: the rate minus the baseline's rate. interval: 95% confidence interval of the
    difference. p_value: for this comparison alone. corrected: for all comparisons; None with too
    few units.
    """

    difference: float
    interval: tuple[float, float]
    method: Method
    p_value: float
    corrected: float | None

    @property
    def is_clear(self) -> bool:
        return self.corrected is not None and self.corrected < SIGNIFICANCE


def compare_all(pairs: Sequence[tuple[Share, Share]]) -> list[Comparison]:
    """Compare shares with their baselines, and correct the p-values for the number of comparisons.

    The correction leaves out pairs with too few units, which would weaken the other tests.
    """
    tests = [p_value(share, baseline) for share, baseline in pairs]
    large = [
        index
        for index, (share, baseline) in enumerate(pairs)
        if min(share.whole, baseline.whole) >= MIN_UNITS
    ]
    corrected = dict(zip(large, holm([tests[index][1] for index in large]), strict=True))
    return [
        Comparison(
            share.rate - baseline.rate,
            newcombe_interval(share, baseline),
            *test,
            corrected.get(index),
        )
        for index, ((share, baseline), test) in enumerate(zip(pairs, tests, strict=True))
    ]


def wilson_interval(share: Share) -> tuple[float, float]:
    """Return the 95% confidence interval of a share.

    Method: Wilson 1927, without continuity correction.
    """
    width = 1 + _Z**2 / share.whole
    centre = (share.rate + _Z**2 / (2 * share.whole)) / width
    variance = share.rate * (1 - share.rate) / share.whole + (_Z / (2 * share.whole)) ** 2
    half = _Z * sqrt(variance) / width
    return (
        centre - half if share.part > 0 else 0.0,
        centre + half if share.part < share.whole else 1.0,
    )


def newcombe_interval(share: Share, baseline: Share) -> tuple[float, float]:
    """Return the 95% confidence interval of `share` minus `baseline`, from their Wilson intervals.

    Method: Newcombe 1998, method 10.
    """
    (low, high), (base_low, base_high) = wilson_interval(share), wilson_interval(baseline)
    difference = share.rate - baseline.rate
    below = hypot(share.rate - low, base_high - baseline.rate)
    above = hypot(high - share.rate, baseline.rate - base_low)
    return difference - below, difference + above


@dataclass(frozen=True, slots=True)
class Move:
    """The change of a share. interval: its 95% confidence interval."""

    difference: float
    interval: tuple[float, float]

    @property
    def is_clear(self) -> bool:
        low, high = self.interval
        return low > 0 or high < 0


def move_of(now: Share, before: Share) -> Move:
    """Return the change of a share."""
    return Move(now.rate - before.rate, newcombe_interval(now, before))


def moves_differ(own: Move, rest: Move) -> bool:
    """Whether the 95% confidence interval of the difference of two changes excludes 0.

    Method: the intervals of both changes give that of their difference (MOVER: Donner and Zou
    2010).
    """
    (low, high), (rest_low, rest_high) = own.interval, rest.interval
    difference = own.difference - rest.difference
    below = hypot(own.difference - low, rest_high - rest.difference)
    above = hypot(high - own.difference, rest.difference - rest_low)
    return difference - below > 0 or difference + above < 0


def p_value(share: Share, baseline: Share) -> tuple[Method, float]:
    """Return the probability of a difference at least this large if the true rates are equal.

    Differences in either direction count. Method: the z test of two proportions with pooled
    variance. It is too rough if a cell of the two-by-two table has an expected count below 5
    (Cochran's rule). In that case, Fisher's exact test is used.
    """
    pooled = (share.part + baseline.part) / (share.whole + baseline.whole)
    if min(share.whole, baseline.whole) * min(pooled, 1 - pooled) < _SMALLEST_EXPECTED:
        return Method.FISHER, _fisher(share, baseline)
    deviation = sqrt(pooled * (1 - pooled) * (1 / share.whole + 1 / baseline.whole))
    return Method.Z, erfc(abs(share.rate - baseline.rate) / deviation / sqrt(2))


def _fisher(share: Share, baseline: Share) -> float:
    """Return the probability of all tables that are at most as likely as the observed one.

    All these tables have the same sums, so `share.part` has a hypergeometric distribution. Method:
    Fisher 1922.
    """
    import numpy as np

    parts = share.part + baseline.part
    first, last = max(0, parts - baseline.whole), min(parts, share.whole)
    k = np.arange(first, last, dtype=np.float64)
    ratios = (share.whole - k) * (parts - k) / ((k + 1) * (baseline.whole - parts + k + 1))
    logs = np.concatenate(([0.0], np.cumsum(np.log(ratios))))
    weights = np.exp(logs - logs.max())
    observed = weights[share.part - first]
    return float(weights[weights <= observed * (1 + _EQUAL)].sum() / weights.sum())


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for multiple comparisons, in the same order. Method: Holm 1979."""
    corrected = [0.0] * len(p_values)
    smallest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        smallest = max(smallest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = smallest
    return corrected


def probability_to_beat(share: Share, baseline: Share) -> float:
    """Return the probability that the true rate of `share` is above the rate of `baseline`.

    Method: with Beta(1, 1) priors and whole counts the probability is a finite sum (Evan Miller,
    "Formulas for Bayesian A/B Testing", 2015). It has one term for each unit of one of the four
    counts; the smallest count is used. The result is deterministic and accurate to at least six
    decimals.
    """
    own, own_rest = share.part + 1, share.whole - share.part + 1
    base, base_rest = baseline.part + 1, baseline.whole - baseline.part + 1
    forms = {
        own: (1.0, base, base_rest, own, own_rest),
        base: (-1.0, own, own_rest, base, base_rest),
        base_rest: (1.0, own_rest, own, base_rest, base),
        own_rest: (-1.0, base_rest, base, own_rest, own),
    }
    sign, *beta = forms[min(forms)]
    above = sum(float(terms.sum()) for terms in _terms(*beta))
    return min(1.0, max(0.0, above if sign > 0 else 1 - above))


def _terms(a: int, a_rest: int, b: int, b_rest: int) -> "Iterator[NDArray[np.float64]]":
    """Yield the terms of the probability that Beta(b, b_rest) is above Beta(a, a_rest), in chunks.

    Each term is computed from the previous term and their ratio.
    """
    import numpy as np

    logarithm = (
        lgamma(a + a_rest) + lgamma(a_rest + b_rest) - lgamma(a_rest) - lgamma(a + a_rest + b_rest)
    )
    for start in range(0, b, _CHUNK):
        yield np.array([exp(logarithm)])
        i = np.arange(start, min(start + _CHUNK, b) - 1, dtype=np.float64)
        ratios = (a + i) * (b_rest + i) / ((a + a_rest + b_rest + i) * (1 + i))
        logs = logarithm + np.cumsum(np.log(ratios))
        yield np.exp(logs)
        end = start + _CHUNK - 1
        logarithm = float(logs[-1]) if len(logs) else logarithm
        logarithm += log((a + end) * (b_rest + end) / ((a + a_rest + b_rest + end) * (1 + end)))
