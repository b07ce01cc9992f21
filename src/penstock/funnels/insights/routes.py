"""HTTP routes for trends, times between steps and next events."""

from penstock.accounts.model import Caller
from penstock.funnels.insights.schema import (
    NextQuery,
    NextRecord,
    TimingQuery,
    TimingRecord,
    TrendQuery,
    TrendRecord,
)
from penstock.funnels.insights.service import InsightService
from penstock.funnels.queries.request import question


@question("trend", "Trend of a funnel")
def read_trend(
    caller: Caller, insights: InsightService, funnel_id: str, query: TrendQuery
) -> TrendRecord:
    """Returns the number of units by hour, day, week or month of entry.

    Each bucket contains entered, completed, pending and dropped-off units.
    """
    return insights.trend(caller.workspace_id, funnel_id, query)


@question("timing", "Times between steps")
def read_timing(
    caller: Caller, insights: InsightService, funnel_id: str, query: TimingQuery
) -> TimingRecord:
    """Returns the times between steps and overall, with exact quantiles and histograms."""
    return insights.timing(caller.workspace_id, funnel_id, query)


@question("next", "Next events of a funnel")
def read_next(
    caller: Caller, insights: InsightService, funnel_id: str, query: NextQuery
) -> NextRecord:
    """Returns the most frequent events of units after the step at which they stopped."""
    return insights.next_events(caller.workspace_id, funnel_id, query)


ROUTES = (read_trend, read_timing, read_next)
