"""HTTP route for flows."""

from litestar import Response, get
from litestar.di import NamedDependency

from penstock.funnels.flows.schema import FlowsQuery, FlowsRecord
from penstock.funnels.flows.service import FlowService
from penstock.funnels.queries.request import FunnelRequest, describe_query


@get(
    "/api/funnels/{funnel_id:str}/flows",
    opt=describe_query("Flows of a funnel", FlowsQuery, FlowsRecord),
)
async def read_flows(
    funnel: NamedDependency[FunnelRequest], flows: NamedDependency[FlowService]
) -> Response[bytes]:
    """Returns the paths of events before the entry, between two steps, or after a loss."""
    return await funnel.respond(FlowsQuery, flows.flows)


ROUTES = (read_flows,)
