"""HTTP route for previews."""

from penstock.accounts.model import Caller
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.results.schema import PreviewIn, ResultsRecord
from penstock.funnels.results.service import preview
from penstock.http.scopes import KeyScope
from penstock.jobs.cancellable import slow_route


@slow_route(
    "POST",
    "/api/funnels/preview",
    "Preview a funnel",
    status=200,
    validated_by="funnels",
    scopes=(KeyScope.READ,),
    tag="funnels",
)
def preview_funnel(
    caller: Caller, funnel_queries: FunnelQueryRunner, draft: PreviewIn
) -> ResultsRecord:
    """Send the fields of a definition and the query parameters of results in one body.

    Nothing is saved.
    """
    return preview(funnel_queries, caller.workspace_id, draft)


ROUTES = (preview_funnel,)
