"""HTTP route for flows."""

from penstock.accounts.model import Caller
from penstock.funnels.flows.schema import FlowsQuery, FlowsRecord
from penstock.funnels.flows.service import FlowService
from penstock.funnels.queries.request import question


@question("flows", "Flows of a funnel")
def read_flows(
    caller: Caller, flows: FlowService, funnel_id: str, query: FlowsQuery
) -> FlowsRecord:
    """Returns the paths of events before the entry, between two steps, or after a loss."""
    return flows.flows(caller.workspace_id, funnel_id, query)


ROUTES = (read_flows,)
