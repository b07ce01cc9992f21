"""HTTP route for the trace of one unit."""

from urllib.parse import unquote

from penstock.accounts.model import Caller
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.request import question
from penstock.funnels.queries.schema import AdHocQuery
from penstock.funnels.units.schema import TraceRecord
from penstock.funnels.units.trace_reader import trace_of
from penstock.http.requests import AnyRequest, raw_path_after


@question("units/{unit:path}", "Trace of one unit")
def read_trace(
    request: AnyRequest,
    caller: Caller,
    funnel_queries: FunnelQueryRunner,
    funnel_id: str,
    query: AdHocQuery,
) -> TraceRecord:
    """Returns all events of an attempt or a visitor in reading order, each with its decision."""
    unit = unit_in_path(request)
    return trace_of(funnel_queries, caller.workspace_id, funnel_id, query, unit)


def unit_in_path(request: AnyRequest) -> str:
    """Return the rest of the path after `/units/`. An ID may contain slashes, encoded or not."""
    return unquote(raw_path_after(request, "/units/"))


ROUTES = (read_trace,)
