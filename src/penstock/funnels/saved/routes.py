"""HTTP of saved funnels."""

from typing import Any

from anyio import to_thread
from litestar import Request, Response, delete, get, post, put
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.base.ids import WorkspaceId
from penstock.funnels.definitions.definition import FunnelIn
from penstock.funnels.definitions.records import DefinitionRecord, FunnelRecord, RevisionRecord
from penstock.funnels.saved.service import FunnelService
from penstock.http.answers import answer, listing, no_content
from penstock.http.bodies import read_bytes, read_query, require_json
from penstock.http.openapi import described
from penstock.http.schema import PageQuery, SearchQuery

AnyRequest = Request[Any, Any, Any]


async def _funnel_in(request: AnyRequest, workspace_id: WorkspaceId, funnels: FunnelService) -> FunnelIn:
    require_json(request)
    return await to_thread.run_sync(funnels.read, workspace_id, await read_bytes(request), FunnelIn)


@post("/api/funnels", opt=described("Save a funnel", body=FunnelIn, answers=FunnelRecord, tag="funnels"))
async def create_funnel(request: AnyRequest, caller: NamedDependency[Caller], funnels: NamedDependency[FunnelService]) -> Response[bytes]:
    """At most 30 rows, 20 `or` rows to a step, 20 filters to a match and 256 matches in all."""
    funnel = await _funnel_in(request, caller.workspace_id, funnels)
    return answer(await to_thread.run_sync(funnels.create, caller.workspace_id, funnel), status=201)


@post("/api/funnels/validate", status_code=200, opt=described("Check a funnel", body=FunnelIn, answers=DefinitionRecord, tag="funnels"))
async def validate_funnel(request: AnyRequest, caller: NamedDependency[Caller], funnels: NamedDependency[FunnelService]) -> Response[bytes]:
    """Answers the definition as it would be saved, with every default filled in, or all of its faults. Nothing is saved."""
    require_json(request)
    return answer(await to_thread.run_sync(funnels.validated, caller.workspace_id, await read_bytes(request)))


@get("/api/funnels", opt=described("Saved funnels", answers=FunnelRecord, query=SearchQuery, listed=True, tag="funnels"))
async def list_funnels(request: AnyRequest, caller: NamedDependency[Caller], funnels: NamedDependency[FunnelService]) -> Response[bytes]:
    """Newest first."""
    query = read_query(request, SearchQuery)
    return listing(await to_thread.run_sync(funnels.page, caller.workspace_id, query.asked, query.search))


@get("/api/funnels/{funnel_id:str}", opt=described("A saved funnel", answers=FunnelRecord, tag="funnels"))
async def read_funnel(
    funnel_id: FromPath[str], caller: NamedDependency[Caller], funnels: NamedDependency[FunnelService]
) -> Response[bytes]:
    return answer(await to_thread.run_sync(funnels.get, caller.workspace_id, funnel_id))


@put("/api/funnels/{funnel_id:str}", opt=described("Replace a funnel", body=FunnelIn, answers=FunnelRecord, tag="funnels"))
async def replace_funnel(
    request: AnyRequest, funnel_id: FromPath[str], caller: NamedDependency[Caller], funnels: NamedDependency[FunnelService]
) -> Response[bytes]:
    """Takes the whole definition. The revision rises when what is counted changes; a new name alone keeps it."""
    funnel = await _funnel_in(request, caller.workspace_id, funnels)
    return answer(await to_thread.run_sync(funnels.replace, caller.workspace_id, funnel_id, funnel))


@get(
    "/api/funnels/{funnel_id:str}/revisions",
    opt=described("Revisions of a funnel", answers=RevisionRecord, query=PageQuery, listed=True, tag="funnels"),
)
async def list_revisions(
    request: AnyRequest, funnel_id: FromPath[str], caller: NamedDependency[Caller], funnels: NamedDependency[FunnelService]
) -> Response[bytes]:
    """Newest first. Whatever answers about a funnel answers about an earlier revision with `revision`."""
    page = read_query(request, PageQuery).asked
    return listing(await to_thread.run_sync(funnels.revisions, caller.workspace_id, funnel_id, page))


@delete("/api/funnels/{funnel_id:str}", opt=described("Delete a funnel", tag="funnels"))
async def delete_funnel(
    funnel_id: FromPath[str], caller: NamedDependency[Caller], funnels: NamedDependency[FunnelService]
) -> Response[None]:
    """Events stay as they are; only the definition goes."""
    await to_thread.run_sync(funnels.delete, caller.workspace_id, funnel_id)
    return no_content()


ROUTES = (create_funnel, validate_funnel, list_funnels, read_funnel, replace_funnel, list_revisions, delete_funnel)
