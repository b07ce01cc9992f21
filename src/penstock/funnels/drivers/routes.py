"""HTTP route for drivers of a loss."""

from penstock.accounts.model import Caller
from penstock.funnels.drivers.schema import DriversQuery, DriversRecord
from penstock.funnels.drivers.service import DriverService
from penstock.funnels.queries.request import question


@question("drivers", "Drivers of a loss")
def read_drivers(
    caller: Caller, drivers: DriverService, funnel_id: str, query: DriversQuery
) -> DriversRecord:
    """Returns the entry properties, traits of visitors and events that are associated with the loss
    after a step.

    They are ranked by their effect, with confidence intervals and corrected p-values.
    """
    return drivers.drivers(caller.workspace_id, funnel_id, query)


ROUTES = (read_drivers,)
