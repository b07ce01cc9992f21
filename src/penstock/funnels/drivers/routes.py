"""HTTP route for drivers of a loss."""

from litestar import Response, get
from litestar.di import NamedDependency

from penstock.funnels.drivers.schema import DriversQuery, DriversRecord
from penstock.funnels.drivers.service import DriverService
from penstock.funnels.queries.request import FunnelRequest, describe_query


@get(
    "/api/funnels/{funnel_id:str}/drivers",
    opt=describe_query("Drivers of a loss", DriversQuery, DriversRecord),
)
async def read_drivers(
    funnel: NamedDependency[FunnelRequest], drivers: NamedDependency[DriverService]
) -> Response[bytes]:
    """Returns the entry properties, traits of visitors and events that are associated with the loss
    after a step.

    They are ranked by their effect, with confidence intervals and corrected p-values.
    """
    return await funnel.respond(DriversQuery, drivers.drivers)


ROUTES = (read_drivers,)
