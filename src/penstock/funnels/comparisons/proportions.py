"""Statistics of proportions: confidence intervals, significance tests and Bayes. No I/O.

Importing scipy takes half a second, so each function imports it when called.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import hypot, sqrt

CONFIDENCE_LEVEL = 0.95

_SMALLEST_EXPECTED = 5

# For the integral in `probability_to_beat`: the tail to ignore at each end, the quantiles at which
# to split it, and the number of points in each part.
_TAIL = 1e-12
_CUTS = (1e-9, 1e-6, 1e-3, 0.05, 0.25, 0.5, 0.75, 0.95, 1 - 1e-3, 1 - 1e-6, 1 - 1e-9)
_POINTS = 30


class Method(StrEnum):
    """A significance test for a difference."""

    Z = "z"
    FISHER = "fisher"


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole. whole: greater than 0."""

    part: int
    whole: int

    @property
    def rate(self) -> float:
        return self.part / self.whole


def wilson_interval(share: Share) -> tuple[float, float]:
    """95% confidence interval of a share.

    Method: Wilson 1927, without continuity correction (scipy.stats.binomtest).
    """
    from scipy import stats

    interval = stats.binomtest(share.part, share.whole).proportion_ci(
        CONFIDENCE_LEVEL, method="wilson"
    )
    return float(interval.low), float(interval.high)


def newcombe_interval(share: Share, baseline: Share) -> tuple[float, float]:
    """95% confidence interval of `share` minus `baseline`, from their Wilson intervals.

    Method: Newcombe 1998, method 10.
    """
    (low, high), (base_low, base_high) = wilson_interval(share), wilson_interval(baseline)
    difference = share.rate - baseline.rate
    below = hypot(share.rate - low, base_high - baseline.rate)
    above = hypot(high - share.rate, baseline.rate - base_low)
    return difference - below, difference + above


def p_value(share: Share, baseline: Share) -> tuple[Method, float]:
    """Probability of a difference at least this large, in either direction, if the rates are equal.

    Method: the z test of two proportions with pooled variance (scipy.stats.norm). It is too rough
    if a cell of the two-by-two table has an expected count below 5 (Cochran's rule). In that case,
    Fisher's exact test is used (scipy.stats.fisher_exact).
    """
    from scipy import stats

    pooled = (share.part + baseline.part) / (share.whole + baseline.whole)
    if min(share.whole, baseline.whole) * min(pooled, 1 - pooled) < _SMALLEST_EXPECTED:
        table = [[side.part, side.whole - side.part] for side in (share, baseline)]
        return Method.FISHER, float(stats.fisher_exact(table, alternative="two-sided").pvalue)
    deviation = sqrt(pooled * (1 - pooled) * (1 / share.whole + 1 / baseline.whole))
    return Method.Z, float(2 * stats.norm.sf(abs(share.rate - baseline.rate) / deviation))


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for multiple comparisons, in the same order. Method: Holm 1979."""
    corrected = [0.0] * len(p_values)
    smallest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        smallest = max(smallest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = smallest
    return corrected


def probability_to_beat(share: Share, baseline: Share) -> float:
    """Probability that the true rate of `share` is above the rate of `baseline`.

    Method: with Beta(1, 1) priors, integrate one posterior's density times the other's distribution
    function (scipy.stats.beta) by Gauss-Legendre quadrature (scipy.integrate.fixed_quad). The
    integral is split at quantiles of both, so each part is smooth. The result is deterministic and
    accurate to at least six decimals.
    """
    from scipy import integrate, stats

    posterior, base = (
        stats.beta(side.part + 1, side.whole - side.part + 1) for side in (share, baseline)
    )
    first, last = float(posterior.ppf(_TAIL)), float(posterior.isf(_TAIL))
    inner = {
        float(cut) for side in (posterior, base) for cut in side.ppf(_CUTS) if first < cut < last
    }
    cuts = [first, *sorted(inner), last]
    parts = (
        integrate.fixed_quad(lambda x: posterior.pdf(x) * base.cdf(x), start, end, n=_POINTS)[0]
        for start, end in pairwise(cuts)
    )
    return min(1.0, max(0.0, float(sum(parts))))
