"""Progress of a build of stored outcomes, and the address for cancelling it."""

from dataclasses import dataclass
from urllib.parse import urlencode

from penstock.base.ids import WorkspaceId
from penstock.funnels.outcomes.schema import OutcomesQuery, OutcomesRecord, OutcomesState
from penstock.funnels.outcomes.service import OutcomeService


@dataclass(frozen=True, slots=True)
class Build:
    """A queued or running build.

    path: path of its part of the page; the API has the same path under /api. share: fraction of
    this step's rows that it has read, 0 to 1; None while it is queued.
    """

    path: str
    share: float | None


def build_of(
    outcomes: OutcomeService, workspace_id: WorkspaceId, funnel_id: str, query: OutcomesQuery
) -> Build | None:
    """Return the build of a funnel's outcomes, if any. Blocks, and raises the same errors as
    `status`.
    """
    record = outcomes.status(workspace_id, funnel_id, query)
    if record.state not in (OutcomesState.QUEUED, OutcomesState.BUILDING):
        return None
    selection = "" if query.website_id is None else f"?{urlencode({'websiteId': query.website_id})}"
    return Build(f"/funnels/{funnel_id}/outcomes{selection}", _share_read(record))


def _share_read(record: OutcomesRecord) -> float | None:
    if record.state is OutcomesState.QUEUED:
        return None
    return min(record.rows_read / record.rows_to_read, 1.0) if record.rows_to_read else 0.0
