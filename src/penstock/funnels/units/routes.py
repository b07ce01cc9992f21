"""HTTP routes for single units: lists, traces and explanations."""

from functools import partial
from urllib.parse import unquote

from litestar import Response, get
from litestar.di import NamedDependency

from penstock.funnels.queries.request import FunnelRequest, describe_query
from penstock.funnels.queries.schema import AdHocQuery
from penstock.funnels.units.schema import (
    ExplainQuery,
    ExplainRecord,
    TraceRecord,
    UnitsQuery,
    UnitsRecord,
)
from penstock.funnels.units.service import UnitService
from penstock.funnels.units.trace_reader import TraceReader
from penstock.http.requests import AnyRequest, raw_path_after


@get(
    "/api/funnels/{funnel_id:str}/units",
    opt=describe_query("Units behind a number", UnitsQuery, UnitsRecord),
)
async def list_units(
    funnel: NamedDependency[FunnelRequest], units: NamedDependency[UnitService]
) -> Response[bytes]:
    """Returns the attempts or visitors that a report counts, newest entry first."""
    return await funnel.respond(UnitsQuery, units.units)


@get(
    "/api/funnels/{funnel_id:str}/units/{unit:path}",
    opt=describe_query("Trace of one unit", AdHocQuery, TraceRecord),
)
async def read_trace(
    request: AnyRequest,
    funnel: NamedDependency[FunnelRequest],
    traces: NamedDependency[TraceReader],
) -> Response[bytes]:
    """Returns all events of an attempt or a visitor in reading order, each with its decision."""
    return await funnel.respond(AdHocQuery, partial(traces.trace, unit=unit_in_path(request)))


def unit_in_path(request: AnyRequest) -> str:
    """Return the rest of the path after `/units/`. An ID may contain slashes, encoded or not."""
    return unquote(raw_path_after(request, "/units/"))


@get(
    "/api/funnels/{funnel_id:str}/explain",
    opt=describe_query("Why an event counts or not", ExplainQuery, ExplainRecord),
)
async def explain_event(
    funnel: NamedDependency[FunnelRequest], traces: NamedDependency[TraceReader]
) -> Response[bytes]:
    """Returns one stored event: its unit, whether it counts, and why."""
    return await funnel.respond(ExplainQuery, traces.explain)


ROUTES = (list_units, read_trace, explain_event)
