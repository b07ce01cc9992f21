"""Figures over settled units, whose window has ended. Source: semantics, "Outcome"."""

from typing import Any

from penstock.base.rates import rate
from penstock.funnels.results.schema import RangeRecord


def settled_figures(*, entered: int, completed: int, pending: int, early: int) -> dict[str, Any]:
    """Return the fields of `SettledRecord`.

    early: number of completed units whose window is open.
    """
    settled = entered - pending - early
    return {
        "settled": settled,
        "settled_rate": rate(completed - early, settled),
        "early_completions": early,
    }


def final_rate(*, entered: int, completed: int, pending: int) -> RangeRecord | None:
    """Return the range that the conversion rate can still reach; None if it cannot change."""
    if not pending:
        return None
    return RangeRecord(
        lower=round(completed / entered, 4), upper=round((completed + pending) / entered, 4)
    )
