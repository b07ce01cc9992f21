"""Query parameters of the list of funnels."""

from collections.abc import Mapping
from typing import Literal

from penstock.funnels.saved.schema import FunnelsQuery

Period = Literal["7d", "settled", "30d", "90d"]

PERIODS: Mapping[Period, str] = {
    "7d": "7 days",
    "settled": "Last 7 settled days",
    "30d": "30 days",
    "90d": "90 days",
}
"""Periods of the figures in the list, by their value in the address."""


class FunnelListQuery(FunnelsQuery):
    """The state of the list. period: as on a report."""

    period: Period = "30d"
