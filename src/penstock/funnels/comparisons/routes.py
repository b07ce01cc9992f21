"""HTTP route for comparisons."""

from penstock.accounts.model import Caller
from penstock.funnels.comparisons.schema import CompareQuery, ComparisonRecord
from penstock.funnels.comparisons.service import CompareService
from penstock.funnels.queries.request import question


@question("compare", "Compare cohorts of a funnel")
def compare_cohorts(
    caller: Caller, comparisons: CompareService, funnel_id: str, query: CompareQuery
) -> ComparisonRecord:
    """Compares the cohorts of a breakdown property with a baseline.

    The response contains confidence intervals, significance tests and warnings.
    """
    return comparisons.compare(caller.workspace_id, funnel_id, query)


ROUTES = (compare_cohorts,)
