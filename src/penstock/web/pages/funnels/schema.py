"""Query parameters of the list of funnels, and of the form for a new one."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from penstock.funnels.saved.schema import FunnelsQuery
from penstock.http.schema import Query

Period = Literal["7d", "settled", "30d", "90d", "all"]

PERIODS: Mapping[Period, str] = {
    "7d": "7 days",
    "settled": "Last 7 settled days",
    "30d": "30 days",
    "90d": "90 days",
    "all": "All time",
}
"""Periods of the figures in the list, by their value in the address."""


class FunnelListQuery(FunnelsQuery):
    """The state of the list. period: as on a report."""

    period: Period = "30d"


class NewFunnelQuery(Query):
    """An import whose dry run suggests the steps of a new funnel. attempt_property: a property that
    looks like an attempt ID; None counts visitors.
    """

    import_: Annotated[str | None, Field(alias="import")] = None
    attempt_property: str | None = None
