"""HTTP routes for internal traffic."""

from penstock.accounts.model import Caller
from penstock.funnels.internal_traffic.schema import InternalTrafficIn, InternalTrafficRecord
from penstock.funnels.internal_traffic.service import InternalTrafficService
from penstock.http.handlers import route
from penstock.http.read_only import ReadOnlyFields

_PATH = "/api/settings/internal-traffic"


@route("GET", _PATH, "Internal traffic", tag="accounts")
def read_internal_traffic(
    caller: Caller, internal_traffic: InternalTrafficService
) -> InternalTrafficRecord:
    """Return the filters whose entries reports leave out."""
    return internal_traffic.get(caller.workspace_id)


@route(
    "PUT",
    _PATH,
    "Replace the filters of internal traffic",
    validated_by="patterns",
    tag="accounts",
)
def replace_internal_traffic(
    caller: Caller,
    internal_traffic: InternalTrafficService,
    filters: InternalTrafficIn,
    read_only: ReadOnlyFields,
) -> InternalTrafficRecord:
    """Reports leave out units whose entry event passes any of these filters.

    Every report of the workspace applies them immediately; with `internal=true`, it counts these
    units again. You can send the read-only fields `revision` and `updatedAt` back with their stored
    values.
    """
    return internal_traffic.replace(caller, filters, read_only)


ROUTES = (read_internal_traffic, replace_internal_traffic)
