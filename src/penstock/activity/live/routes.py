"""HTTP routes for recent events."""

from penstock.accounts.model import Caller
from penstock.activity.live.schema import RecentQuery, RecentRecord
from penstock.activity.live.service import LiveService
from penstock.jobs.cancellable import slow_route


@slow_route("GET", "/api/events/recent", "Recent events", tag="activity")
def list_recent_events(caller: Caller, live: LiveService, query: RecentQuery) -> RecentRecord:
    """List recent events, newest first.

    To get new events, poll with the response's cursor every second or two.
    """
    return live.recent_events(caller.workspace_id, query)


ROUTES = (list_recent_events,)
