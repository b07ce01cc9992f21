"""HTTP route for verdicts."""

from litestar import Response, get
from litestar.di import NamedDependency

from penstock.funnels.queries.request import FunnelRequest, describe_query
from penstock.funnels.verdicts.schema import VerdictQuery, VerdictRecord
from penstock.funnels.verdicts.service import VerdictService


@get(
    "/api/funnels/{funnel_id:str}/verdict",
    opt=describe_query("Verdict on a funnel", VerdictQuery, VerdictRecord),
)
async def read_verdict(
    funnel: NamedDependency[FunnelRequest], verdicts: NamedDependency[VerdictService]
) -> Response[bytes]:
    """Returns the results in sentences, with the response that shows each phrase.

    It compares settled units with those of the period of the same length just before, at the same
    age.
    """
    return await funnel.respond(VerdictQuery, verdicts.verdict)


ROUTES = (read_verdict,)
