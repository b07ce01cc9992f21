"""HTTP routes for trends, times between steps and next events."""

from litestar import Response, get
from litestar.di import NamedDependency

from penstock.funnels.insights.schema import (
    NextQuery,
    NextRecord,
    TimingQuery,
    TimingRecord,
    TrendQuery,
    TrendRecord,
)
from penstock.funnels.insights.service import InsightService
from penstock.funnels.queries.request import FunnelRequest, describe_query


@get(
    "/api/funnels/{funnel_id:str}/trend",
    opt=describe_query("Trend of a funnel", TrendQuery, TrendRecord),
)
async def read_trend(
    funnel: NamedDependency[FunnelRequest], insights: NamedDependency[InsightService]
) -> Response[bytes]:
    """Returns the number of units by hour, day, week or month of entry.

    Each bucket contains entered, completed, pending and dropped-off units.
    """
    return await funnel.respond(TrendQuery, insights.trend)


@get(
    "/api/funnels/{funnel_id:str}/timing",
    opt=describe_query("Times between steps", TimingQuery, TimingRecord),
)
async def read_timing(
    funnel: NamedDependency[FunnelRequest], insights: NamedDependency[InsightService]
) -> Response[bytes]:
    """Returns the times between steps and overall, with exact quantiles and histograms."""
    return await funnel.respond(TimingQuery, insights.timing)


@get(
    "/api/funnels/{funnel_id:str}/next",
    opt=describe_query("Next events of a funnel", NextQuery, NextRecord),
)
async def read_next(
    funnel: NamedDependency[FunnelRequest], insights: NamedDependency[InsightService]
) -> Response[bytes]:
    """Returns the most frequent events of units after the step at which they stopped."""
    return await funnel.respond(NextQuery, insights.next_events)


ROUTES = (read_trend, read_timing, read_next)
