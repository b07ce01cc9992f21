"""HTTP routes for saved funnels."""

from penstock.accounts.model import Caller
from penstock.base.paging import Listing
from penstock.funnels.definitions.schema import (
    DefinitionRecord,
    FunnelRecord,
    ReplacedFunnelRecord,
    RevisionRecord,
)
from penstock.funnels.saved.schema import FunnelIn, FunnelMove, FunnelsQuery, NewFunnelQuery
from penstock.funnels.saved.service import FunnelService
from penstock.http.handlers import route
from penstock.http.read_only import ReadOnlyFields
from penstock.http.schema import PageQuery, RevisionQuery
from penstock.http.scopes import KeyScope

_ALL = "/api/funnels"
_ONE = "/api/funnels/{funnel_id:str}"


@route("POST", _ALL, "Create a funnel", validated_by="funnels", tag="funnels")
def create_funnel(
    caller: Caller, funnels: FunnelService, funnel: FunnelIn, query: NewFunnelQuery
) -> FunnelRecord:
    """A funnel has at most 30 rows, 20 `or` rows per row, 20 filters per match and 256 matches.

    All filters together may cost 400 units. A fault explains the costs and what to drop."""
    return funnels.create(caller.workspace_id, funnel, query.draft)


@route(
    "POST",
    "/api/funnels/validate",
    "Check a funnel",
    status=200,
    validated_by="funnels",
    scopes=(KeyScope.READ,),
    tag="funnels",
)
def validate_funnel(caller: Caller, funnels: FunnelService, funnel: FunnelIn) -> DefinitionRecord:
    """Returns the definition with all defaults, or all its faults. Saves nothing."""
    return funnels.complete(caller.workspace_id, funnel)


@route("GET", _ALL, "Saved funnels", tag="funnels")
def list_funnels(
    caller: Caller, funnels: FunnelService, query: FunnelsQuery
) -> Listing[FunnelRecord]:
    """List funnels, by default the newest first."""
    return funnels.page(
        caller.workspace_id, query.pagination, query.search, query.sort, query.folder
    )


@route("GET", _ONE, "A saved funnel", tag="funnels")
def read_funnel(caller: Caller, funnels: FunnelService, funnel_id: str) -> FunnelRecord:
    return funnels.get(caller.workspace_id, funnel_id)


@route("PUT", _ONE, "Replace a funnel", validated_by="funnels", tag="funnels")
def replace_funnel(
    caller: Caller,
    funnels: FunnelService,
    funnel_id: str,
    funnel: FunnelIn,
    read_only: ReadOnlyFields,
) -> ReplacedFunnelRecord:
    """Send the whole definition. Changing only the name keeps the revision.

    You can send read-only fields (`id`, `revision`, ...) back with their stored values. An earlier
    `revision` returns 409.
    """
    return funnels.replace(caller.workspace_id, funnel_id, funnel, read_only)


@route("PATCH", _ONE, "Move a funnel", tag="funnels")
def move_funnel(
    caller: Caller, funnels: FunnelService, funnel_id: str, move: FunnelMove
) -> FunnelRecord:
    """Moves the funnel to a folder, or out of its folder. Its revision and definition stay the
    same.
    """
    return funnels.move(caller.workspace_id, funnel_id, move.folder)


@route("GET", f"{_ONE}/revisions", "Revisions of a funnel", tag="funnels")
def list_revisions(
    caller: Caller, funnels: FunnelService, funnel_id: str, query: PageQuery
) -> Listing[RevisionRecord]:
    """List revisions, newest first. Every funnel query accepts the number of any `revision`."""
    return funnels.revisions(caller.workspace_id, funnel_id, query.pagination)


@route("DELETE", _ONE, "Delete a funnel", tag="funnels")
def delete_funnel(
    caller: Caller, funnels: FunnelService, funnel_id: str, query: RevisionQuery
) -> None:
    """Deletes the definition and its revisions. Events are not deleted."""
    funnels.delete(caller.workspace_id, funnel_id, query.revision)


ROUTES = (
    create_funnel,
    validate_funnel,
    list_funnels,
    read_funnel,
    replace_funnel,
    move_funnel,
    list_revisions,
    delete_funnel,
)
