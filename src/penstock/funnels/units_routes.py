"""HTTP of single units: lists, traces, explanations."""

from typing import Any
from urllib.parse import unquote

from anyio import to_thread
from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.funnels.results_schema import PeriodQuery
from penstock.funnels.tracing import TraceService
from penstock.funnels.units import UnitService
from penstock.funnels.units_schema import ExplainQuery, ExplainRecord, TraceRecord, UnitsQuery, UnitsRecord
from penstock.http.answers import answer
from penstock.http.bodies import read_query
from penstock.http.openapi import described

AnyRequest = Request[Any, Any, Any]


@get("/api/funnels/{funnel_id:str}/units", opt=described("Units behind a number", answers=UnitsRecord, query=UnitsQuery, tag="funnels"))
async def list_units(
    request: AnyRequest, funnel_id: FromPath[str], caller: NamedDependency[Caller], units: NamedDependency[UnitService]
) -> Response[bytes]:
    """The attempts or visitors that a report counts, newest entry first: by step, outcome, cohort, diagnostic row or data quality."""
    query = read_query(request, UnitsQuery)
    return answer(await to_thread.run_sync(units.units, caller.workspace_id, funnel_id, query))


@get(
    "/api/funnels/{funnel_id:str}/units/{unit:path}",
    opt=described("Trace of one unit", answers=TraceRecord, query=PeriodQuery, tag="funnels"),
)
async def read_trace(
    request: AnyRequest, funnel_id: FromPath[str], caller: NamedDependency[Caller], traces: NamedDependency[TraceService]
) -> Response[bytes]:
    """Every event of an attempt or a visitor in the order read, with the decision taken on it in plain words."""
    query = read_query(request, PeriodQuery)
    return answer(await to_thread.run_sync(traces.trace, caller.workspace_id, funnel_id, _unit(request), query))


def _unit(request: AnyRequest) -> str:
    """The rest of the path as it was sent: an ID may hold slashes, encoded or not."""
    raw = request.scope["raw_path"].decode("ascii").partition("?")[0]
    return unquote(raw.split("/units/", 1)[1])


@get(
    "/api/funnels/{funnel_id:str}/explain",
    opt=described("Why an event counts or not", answers=ExplainRecord, query=ExplainQuery, tag="funnels"),
)
async def explain_event(
    request: AnyRequest, funnel_id: FromPath[str], caller: NamedDependency[Caller], traces: NamedDependency[TraceService]
) -> Response[bytes]:
    """One stored event: the unit that it belongs to, whether it counts, and why not."""
    query = read_query(request, ExplainQuery)
    return answer(await to_thread.run_sync(traces.explain, caller.workspace_id, funnel_id, query))


ROUTES = (list_units, read_trace, explain_event)
