"""HTTP routes for stored outcomes."""

from anyio import to_thread
from litestar import Response, delete, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.funnels.outcomes.schema import OutcomesQuery, OutcomesRecord
from penstock.funnels.outcomes.service import OutcomeService
from penstock.http.answers import answer, no_content
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest


@get(
    "/api/funnels/{funnel_id:str}/outcomes",
    opt=described(
        "Stored outcomes of a funnel", query=OutcomesQuery, answers=OutcomesRecord, tag="funnels"
    ),
)
async def read_outcomes(
    request: AnyRequest,
    funnel_id: FromPath[str],
    caller: NamedDependency[Caller],
    outcomes: NamedDependency[OutcomeService],
) -> Response[bytes]:
    """Returns whether results are computed from stored outcomes, and the progress of a build."""
    query = read_query(request, OutcomesQuery)
    return answer(await to_thread.run_sync(outcomes.status, caller.workspace_id, funnel_id, query))


@delete(
    "/api/funnels/{funnel_id:str}/outcomes",
    opt=described("Drop stored outcomes", query=OutcomesQuery, tag="funnels"),
)
async def drop_outcomes(
    request: AnyRequest,
    funnel_id: FromPath[str],
    caller: NamedDependency[Caller],
    outcomes: NamedDependency[OutcomeService],
) -> Response[None]:
    """Cancels a build, or drops stored outcomes. They are not built again for a day.

    Results stay the same, but are computed from events.
    """
    query = read_query(request, OutcomesQuery)
    await to_thread.run_sync(outcomes.drop, caller.workspace_id, funnel_id, query)
    return no_content()


ROUTES = (read_outcomes, drop_outcomes)
