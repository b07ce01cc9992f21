"""Makes the record of a day from the courses of units, by replaying all its forecasts on them."""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from itertools import chain
from math import inf
from typing import Any

import numpy as np
from msgspec import json

from penstock.funnels.forecasts.estimate import (
    MIN_ELIGIBLE,
    NEVER,
    Chances,
    Courses,
    Estimator,
    Floats,
    Ints,
    Period,
    Shape,
    standing,
)
from penstock.funnels.forecasts.model import ALL, ChanceTable, PastForecast, RateTable
from penstock.funnels.forecasts.replays import REPLAYED_DAYS, Calibration, Replayer

MAX_UNITS = 200_000
"""Maximum number of units that are read; of more, a random part."""
MAX_COHORTS = 20
MAX_BUCKETS = 40

_DIGITS = 8


def reads_from_ms(shape: Shape, period: Period) -> int | None:
    """Return the earliest time of entry that the replays of a period need; None for no limit."""
    if period.start_ms is None:
        return None
    deepest = period.shifted(2 * REPLAYED_DAYS)
    reach_ms = shape.reach_ms
    if not shape.enters_once:
        reach_ms = max(reach_ms, period.until_ms - period.start_ms)  # There is at least one span.
    return min(deepest.now_ms - shape.window_ms - reach_ms, period.start_ms)


def cohort_key(texts: Sequence[str]) -> str:
    """Return the key of a cohort in a record: a hash, so that records contain no values.

    texts: the tagged entry values.
    """
    return sha256(json.encode(list(texts))).hexdigest()[:16]


def courses_of(rows: Sequence[Mapping[str, Any]], steps: int) -> Courses:
    """Return the courses of units. rows: those of `statements.forecasts.courses`, which are the
    cohorts.
    """

    def joined(name: str, kind: type = np.int64) -> Any:
        return np.array(list(chain.from_iterable(row[name] for row in rows)), kind)

    entry: Ints = joined("entries")
    order = np.argsort(entry, kind="stable")
    done = np.full((len(entry), steps - 1), NEVER)
    for step in range(2, steps + 1):
        at = joined(f"done_{step}")
        done[:, step - 2] = np.where(at > 0, at - entry, NEVER)
    exclusions = joined("exclusions")
    cohort = np.repeat(np.arange(len(rows)), [len(row["entries"]) for row in rows])
    selected = np.array([bool(row["selected"]) for row in rows], bool)
    share = 1.0
    if len(entry) >= MAX_UNITS:
        share = max(row["last_place"] for row in rows) / 2**64
    return Courses(
        entry[order],
        done[order],
        np.where(exclusions < 0, NEVER, exclusions)[order],
        np.unique(joined("units", np.uint64), return_inverse=True)[1][order],
        cohort[order],
        selected[cohort[order]],
        share,
    )


def make_record(
    courses: Courses,
    shape: Shape,
    period: Period | None,
    parts: Mapping[str, Period],
    check: Callable[[], None],
) -> Mapping[str, ChanceTable]:
    """Return the tables of a record: all steps of the period, and its cohorts or buckets.

    period: None for buckets, which need no forecast of all units. parts: periods of the cohorts or
    buckets, by key. check: function that
    raises an error when the time is up.
    """
    last = [shape.steps]
    of_parts = Estimator(courses, shape, last, check)
    tables = {key: _table(of_parts, part, is_part=True) for key, part in parts.items()}
    if period is None:
        return tables
    whole = Estimator(courses, shape, range(2, shape.steps + 1), check)
    return {ALL: _table(whole, period, is_part=period.cohort is not None), **tables}


def largest_cohorts(courses: Courses, shape: Shape, period: Period) -> list[int]:
    """Return the numbers of the cohorts with most units in the period, if they have enough."""
    units = standing(courses, shape, period)
    sizes = np.bincount(courses.cohort[units.course[~units.excluded]])
    largest = np.argsort(-sizes, kind="stable")[:MAX_COHORTS]
    return [int(cohort) for cohort in largest if sizes[cohort] >= MIN_ELIGIBLE]


def _table(estimator: Estimator, period: Period, *, is_part: bool) -> ChanceTable:
    history, chances = estimator.chances(period)
    replayer = Replayer(estimator, period, is_part=is_part)
    success, excluded, evidence = _with_other_units(replayer, chances)
    calibrations = [replayer.calibrate(index) for index in range(len(estimator.goals))]
    rates = [
        _rate(goal, chances_of_goal, calibration)
        for goal, chances_of_goal, calibration in zip(
            estimator.goals, success, calibrations, strict=True
        )
        if calibration.q is not None
    ]
    return ChanceTable(
        chances.cuts_ms.tolist(),
        _rounded(excluded),
        evidence.tolist(),
        chances.units,
        history.from_ms,
        history.until_ms,
        history.of_cohort,
        rates,
    )


def _rate(goal: int, success: Floats, calibration: Calibration) -> RateTable:
    replays = [
        PastForecast(
            each.days,
            each.rate,
            each.truth,
            each.low,
            each.high,
            None if each.low is None else each.holds,
        )
        for each in calibration.replays
    ]
    q = None if calibration.q == inf else calibration.q
    return RateTable(
        goal, _rounded(success), q, replays, calibration.mean_error or 0.0, calibration.held_share
    )


def _with_other_units(replayer: Replayer, chances: Chances) -> tuple[Floats, Floats, Floats]:
    """Add the cells of open units whose entry does not count, with their chances on average.

    A report knows how many there are, but not how far their open entries are.
    """
    estimate = replayer.estimate(0)
    goals, known = len(chances.success), chances.evidence > 0
    others: list[tuple[Floats, float]] = [(np.zeros(goals), 0.0)] * 2
    if estimate is not None:
        counts = estimate.counts
        others = [
            (_average(chances.success, units * known), _average(chances.evidence, of_last * known))
            for units, of_last in (
                (counts.over, counts.over[-1]),
                (np.broadcast_to(counts.barred, chances.success.shape), counts.barred),
            )
        ]
    success = [shares[:, None] for shares, _ in others]
    evidence = [m for _, m in others]
    return (
        np.concatenate((chances.success, *success), axis=1),
        np.concatenate((chances.excluded, np.zeros(2))),
        np.concatenate((chances.evidence, evidence)),
    )


def _average(values: Floats, weights: Ints) -> Any:
    total = weights.sum(axis=-1)
    return (values * weights).sum(axis=-1) / np.maximum(total, 1)


def _rounded(values: Floats) -> list[float]:
    rounded: list[float] = values.round(_DIGITS).tolist()
    return rounded
