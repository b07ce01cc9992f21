"""Forecasts from the record of a day and the counts of a report."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf, isfinite
from typing import Any

import numpy as np

from penstock.funnels.forecasts.estimate import Chances, Counts, Shape, rates_of
from penstock.funnels.forecasts.model import ChanceTable
from penstock.funnels.forecasts.replays import interval

Ages = Iterable[tuple[int, int, int]]
"""Pending units: steps, an age that stands for its part, and their number."""


def apply_table(
    table: ChanceTable, shape: Shape, counts: Counts, share: float
) -> Sequence[Mapping[str, float] | None]:
    """Return `rate`, `low`, `high` and `completed` of each rate of the table; None if no unit is
    expected to stay eligible, so that there is no rate.
    """
    goals = [rate.goal for rate in table.rates]
    rates = rates_of(counts, _chances(table), shape, goals, share)
    forecasts: list[Mapping[str, float] | None] = []
    for index, of_rate in enumerate(table.rates):
        rate, sd, spare, lower, upper, completed = (
            float(getattr(rates, name)[index]) for name in rates.__slots__
        )
        if not isfinite(rate):
            forecasts.append(None)
            continue
        rate = min(max(rate, lower), upper)  # Chances are rounded.
        low, high = interval(inf if of_rate.q is None else of_rate.q, rate, sd, spare, lower, upper)
        forecasts.append({"rate": rate, "low": low, "high": high, "completed": completed})
    return forecasts


def counts_of_report(
    table: ChanceTable, shape: Shape, figures: Mapping[str, Any], ages: Ages
) -> Counts:
    """Return the counts of all units or of a cohort. figures: as from `statements.figures.read`."""
    entered, excluded = figures["counts"], figures["excluded"]
    pending, reopened = figures["pendings"], figures["reopened"]
    goals = [rate.goal for rate in table.rates]
    return _counts(
        table,
        ages,
        eligible=entered[0] - sum(excluded),
        reached=[entered[goal - 1] - sum(excluded[goal - 1 :]) for goal in goals],
        reopened=[sum(reopened[: goal - 1]) for goal in goals],
        barred=figures["reopened_excluded"],
        may_fail=[sum(pending[goal - 1 :]) + sum(reopened[goal - 1 :]) for goal in goals],
    )


def counts_of_bucket(table: ChanceTable, row: Mapping[str, Any], ages: Ages) -> Counts:
    """Return the counts of a bucket of a trend, of which only the last step is forecast."""
    return _counts(
        table,
        ages,
        eligible=row["entered"] - row["excluded"],
        reached=[row["completed"]],
        reopened=[row["reopened"]],
        barred=row["reopened_excluded"],
        may_fail=[0],
    )


def _counts(
    table: ChanceTable,
    ages: Ages,
    *,
    eligible: int,
    reached: Sequence[int],
    reopened: Sequence[int],
    barred: int,
    may_fail: Sequence[int],
) -> Counts:
    chances, cells = _chances(table), len(table.evidence)
    steps, age_ms, units = np.array(list(ages), np.int64).reshape(-1, 3).T
    pending = np.zeros(cells, np.int64)
    np.add.at(pending, chances.cell(steps, age_ms), units)
    over, excluded = np.zeros((len(reached), cells), np.int64), np.zeros(cells, np.int64)
    over[:, -2], excluded[-1] = reopened, barred
    return Counts(eligible, np.array(reached), pending, over, excluded, np.array(may_fail))


def _chances(table: ChanceTable) -> Chances:
    success = np.array([rate.success for rate in table.rates])
    evidence = np.array(table.evidence)
    cuts_ms = np.array(table.cuts_ms, np.int64)
    return Chances(cuts_ms, success, np.array(table.excluded), evidence, table.units)
