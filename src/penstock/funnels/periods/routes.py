"""HTTP route for comparisons of two periods."""

from penstock.accounts.model import Caller
from penstock.funnels.periods.schema import PeriodsQuery, PeriodsRecord
from penstock.funnels.periods.service import PeriodsService
from penstock.funnels.queries.request import question


@question("periods", "Comparison of two periods")
def compare_periods(
    caller: Caller, periods: PeriodsService, funnel_id: str, query: PeriodsQuery
) -> PeriodsRecord:
    """Compares a period with an earlier one, which is counted as it looked when it was as old."""
    return periods.compare(caller.workspace_id, funnel_id, query)


ROUTES = (compare_periods,)
