"""HTTP routes for stored outcomes."""

from penstock.accounts.model import Caller
from penstock.funnels.outcomes.schema import OutcomesQuery, OutcomesRecord
from penstock.funnels.outcomes.service import OutcomeService
from penstock.http.handlers import route

_PATH = "/api/funnels/{funnel_id:str}/outcomes"


@route("GET", _PATH, "Stored outcomes of a funnel", tag="funnels")
def read_outcomes(
    caller: Caller, outcomes: OutcomeService, funnel_id: str, query: OutcomesQuery
) -> OutcomesRecord:
    """Returns whether results are computed from stored outcomes, and the progress of a build."""
    return outcomes.status(caller.workspace_id, funnel_id, query)


@route("DELETE", _PATH, "Drop stored outcomes", tag="funnels")
def drop_outcomes(
    caller: Caller, outcomes: OutcomeService, funnel_id: str, query: OutcomesQuery
) -> None:
    """Cancels a build, or drops stored outcomes. They are not built again for a day.

    Results stay the same, but are computed from events.
    """
    outcomes.drop(caller.workspace_id, funnel_id, query)


ROUTES = (read_outcomes, drop_outcomes)
