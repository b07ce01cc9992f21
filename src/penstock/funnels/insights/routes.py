"""HTTP of units over time."""

from litestar import Response, get
from litestar.di import NamedDependency

from penstock.funnels.insights.schema import NextQuery, NextRecord, TimingQuery, TimingRecord, TrendQuery, TrendRecord
from penstock.funnels.insights.service import InsightService
from penstock.funnels.results.asked import AskedFunnel, described_answer


@get("/api/funnels/{funnel_id:str}/trend", opt=described_answer("Trend of a funnel", TrendQuery, TrendRecord))
async def read_trend(funnel: NamedDependency[AskedFunnel], insights: NamedDependency[InsightService]) -> Response[bytes]:
    """Entered, completed, pending and dropped off by hour, day, week or month of entry, in any time zone."""
    return await funnel.answered(TrendQuery, insights.trend)


@get("/api/funnels/{funnel_id:str}/timing", opt=described_answer("Times between steps", TimingQuery, TimingRecord))
async def read_timing(funnel: NamedDependency[AskedFunnel], insights: NamedDependency[InsightService]) -> Response[bytes]:
    """How long units took from step to step and overall: exact quantiles and a histogram."""
    return await funnel.answered(TimingQuery, insights.timing)


@get("/api/funnels/{funnel_id:str}/next", opt=described_answer("Where they went", NextQuery, NextRecord))
async def read_next(funnel: NamedDependency[AskedFunnel], insights: NamedDependency[InsightService]) -> Response[bytes]:
    """The most frequent later events of the units that stopped after a step."""
    return await funnel.answered(NextQuery, insights.next)


ROUTES = (read_trend, read_timing, read_next)
