"""HTTP of single units: lists, traces, explanations."""

from functools import partial
from typing import Any
from urllib.parse import unquote

from litestar import Request, Response, get
from litestar.di import NamedDependency

from penstock.funnels.results.asked import AskedFunnel, described_answer
from penstock.funnels.results.schema import PeriodQuery
from penstock.funnels.units.schema import ExplainQuery, ExplainRecord, TraceRecord, UnitsQuery, UnitsRecord
from penstock.funnels.units.service import UnitService
from penstock.funnels.units.tracing import TraceService


@get("/api/funnels/{funnel_id:str}/units", opt=described_answer("Units behind a number", UnitsQuery, UnitsRecord))
async def list_units(funnel: NamedDependency[AskedFunnel], units: NamedDependency[UnitService]) -> Response[bytes]:
    """The attempts or visitors that a report counts, newest entry first: by step, outcome, cohort, diagnostic row or data quality."""
    return await funnel.answered(UnitsQuery, units.units)


@get("/api/funnels/{funnel_id:str}/units/{unit:path}", opt=described_answer("Trace of one unit", PeriodQuery, TraceRecord))
async def read_trace(
    request: Request[Any, Any, Any], funnel: NamedDependency[AskedFunnel], traces: NamedDependency[TraceService]
) -> Response[bytes]:
    """Every event of an attempt or a visitor in the order read, with the decision taken on it in plain words."""
    return await funnel.answered(PeriodQuery, partial(traces.trace, unit=unit_in_path(request)))


def unit_in_path(request: Request[Any, Any, Any]) -> str:
    """The rest of the path after `/units/` as it was sent: an ID may hold slashes, encoded or not."""
    raw = request.scope["raw_path"].decode("ascii").partition("?")[0]
    return unquote(raw.split("/units/", 1)[1])


@get("/api/funnels/{funnel_id:str}/explain", opt=described_answer("Why an event counts or not", ExplainQuery, ExplainRecord))
async def explain_event(funnel: NamedDependency[AskedFunnel], traces: NamedDependency[TraceService]) -> Response[bytes]:
    """One stored event: the unit that it belongs to, whether it counts, and why not."""
    return await funnel.answered(ExplainQuery, traces.explain)


ROUTES = (list_units, read_trace, explain_event)
