"""HTTP of single units: lists, traces, explanations."""

from functools import partial
from typing import Any
from urllib.parse import unquote

from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.funnels.results.schema import PeriodQuery
from penstock.funnels.units.schema import ExplainQuery, ExplainRecord, TraceRecord, UnitsQuery, UnitsRecord
from penstock.funnels.units.service import UnitService
from penstock.funnels.units.tracing import TraceService
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.jobs.answered import Answered
from penstock.jobs.records import JobRecord

AnyRequest = Request[Any, Any, Any]


@get(
    "/api/funnels/{funnel_id:str}/units",
    opt=described(
        "Units behind a number",
        answers=UnitsRecord,
        query=UnitsQuery,
        later=JobRecord,
        tag="funnels",
    ),
)
async def list_units(
    request: AnyRequest,
    funnel_id: FromPath[str],
    caller: NamedDependency[Caller],
    units: NamedDependency[UnitService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """The attempts or visitors that a report counts, newest entry first: by step, outcome, cohort, diagnostic row or data quality."""
    query = read_query(request, UnitsQuery)
    return await answered(partial(units.units, caller.workspace_id, funnel_id, query))


@get(
    "/api/funnels/{funnel_id:str}/units/{unit:path}",
    opt=described(
        "Trace of one unit",
        answers=TraceRecord,
        query=PeriodQuery,
        later=JobRecord,
        tag="funnels",
    ),
)
async def read_trace(
    request: AnyRequest,
    funnel_id: FromPath[str],
    caller: NamedDependency[Caller],
    traces: NamedDependency[TraceService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """Every event of an attempt or a visitor in the order read, with the decision taken on it in plain words."""
    query = read_query(request, PeriodQuery)
    return await answered(partial(traces.trace, caller.workspace_id, funnel_id, unit_in_path(request), query))


def unit_in_path(request: AnyRequest) -> str:
    """The rest of the path after `/units/` as it was sent: an ID may hold slashes, encoded or not."""
    raw = request.scope["raw_path"].decode("ascii").partition("?")[0]
    return unquote(raw.split("/units/", 1)[1])


@get(
    "/api/funnels/{funnel_id:str}/explain",
    opt=described(
        "Why an event counts or not",
        answers=ExplainRecord,
        query=ExplainQuery,
        later=JobRecord,
        tag="funnels",
    ),
)
async def explain_event(
    request: AnyRequest,
    funnel_id: FromPath[str],
    caller: NamedDependency[Caller],
    traces: NamedDependency[TraceService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """One stored event: the unit that it belongs to, whether it counts, and why not."""
    query = read_query(request, ExplainQuery)
    return await answered(partial(traces.explain, caller.workspace_id, funnel_id, query))


ROUTES = (list_units, read_trace, explain_event)
