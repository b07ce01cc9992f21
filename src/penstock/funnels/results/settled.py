"""Figures over eligible units and over settled units.

Eligible units are those that are not excluded; every rate is over them. Settled units are those
whose windows have ended.
Source: semantics, "Outcome" and "Exclusions and strict order".
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from penstock.base.rates import rate
from penstock.funnels.results.schema import RangeRecord


def settled_figures(*, eligible: int, completed: int, pending: int, early: int) -> dict[str, Any]:
    """Return the fields of `SettledRecord`.

    eligible: number of units that entered and are not excluded. early: number of completed units
    whose window is open.
    """
    settled = eligible - pending - early
    return {
        "settled": settled,
        "settled_rate": rate(completed - early, settled),
        "early_completions": early,
    }


def eligible_counts(counts: Sequence[int], excluded: Sequence[int]) -> list[int]:
    """Return the number of eligible units that reached each step.

    counts: number of units that reached each step. excluded: number of units that were excluded
    after each step except the last.
    """
    later = list(accumulate(reversed([*excluded, 0])))[::-1]
    return [count - gone for count, gone in zip(counts, later, strict=True)]


def final_rate(*, eligible: int, completed: int, pending: int) -> RangeRecord | None:
    """Return the range that the conversion rate can still reach; None if it cannot change.

    The range also holds if pending units are excluded.
    """
    if not pending:
        return None
    return RangeRecord(
        lower=round(completed / eligible, 4), upper=round((completed + pending) / eligible, 4)
    )
