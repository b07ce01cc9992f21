"""Replays earlier forecasts, and makes intervals of their errors.

Source: forecast rules, "Interval".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, inf

import numpy as np

from penstock.funnels.forecasts.estimate import MIN_HISTORY, Estimate, Estimator, Period

REPLAYED_DAYS = 60
MIN_REPLAYS = 10
NOMINAL = 0.8
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Replay:
    """An earlier forecast of one rate, and what came of it. days: how many days ago. low, high: its
    interval; None if there was too little history for one.
    """

    days: int
    rate: float
    truth: float
    scaled_error: float
    low: float | None = None
    high: float | None = None

    @property
    def error(self) -> float:
        return abs(self.truth - self.rate)

    @property
    def holds(self) -> bool:
        """Whether the truth was inside the interval, if there was one."""
        if self.low is None or self.high is None:
            return False
        return self.low - _TOLERANCE <= self.truth <= self.high + _TOLERANCE


@dataclass(frozen=True, slots=True)
class Calibration:
    """The calibration of a rate by earlier forecasts. q: standard deviations on each side of the
    interval; infinite for the certain bounds, None if there is too little history.
    """

    q: float | None
    replays: Sequence[Replay]

    @property
    def mean_error(self) -> float | None:
        errors = [replay.error for replay in self.replays]
        return sum(errors) / len(errors) if errors else None

    @property
    def held_share(self) -> float | None:
        held = [replay.holds for replay in self.replays if replay.low is not None]
        return sum(held) / len(held) if held else None


class Replayer:
    """Replays the forecasts of a period on the days before it."""

    def __init__(self, estimator: Estimator, period: Period, *, is_part: bool) -> None:
        self._estimator, self._period, self._is_part = estimator, period, is_part
        self.estimate = cache(self._estimate)
        self._replayed = cache(self._replay)

    def calibrate(self, index: int) -> Calibration:
        """Calibrate a rate. index: the position of its goal."""
        replays = [self._with_interval(replay, index) for replay in self._replays(0, index)]
        return Calibration(self._quantile(0, index), replays)

    def _replays(self, days: int, index: int) -> list[Replay]:
        """Return the replays whose truth was known some days ago, latest first."""
        known_ms = self._period.shifted(days).now_ms - self._estimator.shape.window_ms
        earlier = range(days + 1, days + REPLAYED_DAYS + 1)
        replayed = (
            self._replayed(each)
            for each in earlier
            if self._period.shifted(each).until_ms <= known_ms
        )
        return [replays[index] for replays in replayed if replays is not None]

    def _quantile(self, days: int, index: int) -> float | None:
        estimate, replays = self.estimate(days), self._replays(days, index)
        if estimate is None or estimate.chances.units < MIN_HISTORY or len(replays) < MIN_REPLAYS:
            return None
        errors = sorted(replay.scaled_error for replay in replays)
        return errors[ceil(NOMINAL * (len(errors) + 1)) - 1]

    def _with_interval(self, replay: Replay, index: int) -> Replay:
        q, estimate = self._quantile(replay.days, index), self.estimate(replay.days)
        if q is None or estimate is None:
            return replay
        rates = estimate.rates
        of_goal = (float(getattr(rates, name)[index]) for name in _INTERVAL)
        low, high = interval(q, *of_goal)
        return Replay(replay.days, replay.rate, replay.truth, replay.scaled_error, low, high)

    def _estimate(self, days: int) -> Estimate | None:
        return self._estimator.estimate(self._period.shifted(days), is_part=self._is_part)

    def _replay(self, days: int) -> list[Replay] | None:
        """Return the replay of each goal; None if it does not count."""
        estimate, truth = self.estimate(days), self._estimator.truth(self._period.shifted(days))
        if estimate is None or estimate.chances.units < MIN_HISTORY or truth is None:
            return None
        rates, errors = estimate.rates, np.abs(truth - estimate.rates.rate)
        return [
            Replay(days, float(rate), float(came), _scaled(float(error), float(sd)))
            for rate, came, error, sd in zip(rates.rate, truth, errors, rates.sd, strict=True)
        ]


_INTERVAL = ("rate", "sd", "spare", "lower", "upper")


def interval(
    q: float, rate: float, sd: float, spare: float, lower: float, upper: float
) -> tuple[float, float]:
    """Return the interval of a forecast, cut to the certain bounds."""
    if q == inf:
        return lower, upper
    return max(rate - q * sd, lower), min(rate + q * sd + spare, upper)


def _scaled(error: float, sd: float) -> float:
    if error < _TOLERANCE:
        return 0.0
    return error / sd if sd else inf
