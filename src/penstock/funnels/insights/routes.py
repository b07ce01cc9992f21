"""HTTP of units over time."""

from functools import partial
from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.funnels.insights.schema import NextQuery, NextRecord, TimingQuery, TimingRecord, TrendQuery, TrendRecord
from penstock.funnels.insights.service import InsightService
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.jobs.answered import Answered
from penstock.jobs.records import JobRecord

AnyRequest = Request[Any, Any, Any]


@get(
    "/api/funnels/{funnel_id:str}/trend",
    opt=described(
        "Trend of a funnel",
        answers=TrendRecord,
        query=TrendQuery,
        later=JobRecord,
        tag="funnels",
    ),
)
async def read_trend(
    request: AnyRequest,
    funnel_id: FromPath[str],
    caller: NamedDependency[Caller],
    insights: NamedDependency[InsightService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """Entered, completed, pending and dropped off by hour, day, week or month of entry, in any time zone."""
    query = read_query(request, TrendQuery)
    return await answered(partial(insights.trend, caller.workspace_id, funnel_id, query))


@get(
    "/api/funnels/{funnel_id:str}/timing",
    opt=described(
        "Times between steps",
        answers=TimingRecord,
        query=TimingQuery,
        later=JobRecord,
        tag="funnels",
    ),
)
async def read_timing(
    request: AnyRequest,
    funnel_id: FromPath[str],
    caller: NamedDependency[Caller],
    insights: NamedDependency[InsightService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """How long units took from step to step and overall: exact quantiles and a histogram."""
    query = read_query(request, TimingQuery)
    return await answered(partial(insights.timing, caller.workspace_id, funnel_id, query))


@get(
    "/api/funnels/{funnel_id:str}/next",
    opt=described(
        "Where they went",
        answers=NextRecord,
        query=NextQuery,
        later=JobRecord,
        tag="funnels",
    ),
)
async def read_next(
    request: AnyRequest,
    funnel_id: FromPath[str],
    caller: NamedDependency[Caller],
    insights: NamedDependency[InsightService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """The most frequent later events of the units that stopped after a step."""
    query = read_query(request, NextQuery)
    return await answered(partial(insights.next, caller.workspace_id, funnel_id, query))


ROUTES = (read_trend, read_timing, read_next)
