"""HTTP route for verdicts."""

from penstock.accounts.model import Caller
from penstock.funnels.queries.request import question
from penstock.funnels.verdicts.schema import VerdictQuery, VerdictRecord
from penstock.funnels.verdicts.service import VerdictService


@question("verdict", "Verdict on a funnel")
def read_verdict(
    caller: Caller, verdicts: VerdictService, funnel_id: str, query: VerdictQuery
) -> VerdictRecord:
    """Returns the results in sentences, with the response that shows each phrase.

    It compares settled units with those of the period of the same length just before, at the same
    age.
    """
    return verdicts.verdict(caller.workspace_id, funnel_id, query)


ROUTES = (read_verdict,)
