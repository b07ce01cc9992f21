"""HTTP routes for saved funnels."""

from functools import partial

from anyio import to_thread
from litestar import Response, delete, get, patch, post, put
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.base.fair_queue import FairQueue
from penstock.funnels.definitions.schema import (
    DefinitionRecord,
    FunnelRecord,
    ReplacedFunnelRecord,
    RevisionRecord,
)
from penstock.funnels.saved.schema import FunnelIn, FunnelMove, FunnelsQuery
from penstock.funnels.saved.service import FunnelService
from penstock.http.answers import answer, answer_list, no_content
from penstock.http.bodies import compute_on, read_bytes, read_json, read_query, require_json
from penstock.http.openapi import described
from penstock.http.read_only import split_read_only
from penstock.http.requests import AnyRequest
from penstock.http.schema import PageQuery, RevisionQuery
from penstock.http.scopes import KeyScope


@post(
    "/api/funnels",
    opt=described("Create a funnel", body=FunnelIn, answers=FunnelRecord, tag="funnels"),
)
async def create_funnel(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    funnels: NamedDependency[FunnelService],
    definition_checks: NamedDependency[FairQueue],
) -> Response[bytes]:
    """A funnel has at most 30 rows, 20 `or` rows per row, 20 filters per match and 256 matches.

    All filters together may cost 400 units. A fault explains the costs and what to drop."""
    require_json(request)
    body = await read_bytes(request)
    funnel = await definition_checks.run(
        caller.workspace_id, funnels.read, caller.workspace_id, body, FunnelIn
    )
    return answer(await to_thread.run_sync(funnels.create, caller.workspace_id, funnel), status=201)


@post(
    "/api/funnels/validate",
    status_code=200,
    opt=described(
        "Check a funnel",
        body=FunnelIn,
        answers=DefinitionRecord,
        scopes=(KeyScope.READ,),
        tag="funnels",
    ),
)
async def validate_funnel(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    funnels: NamedDependency[FunnelService],
    definition_checks: NamedDependency[FairQueue],
) -> Response[bytes]:
    """Returns the definition with all defaults, or all its faults. Saves nothing."""
    require_json(request)
    body = await read_bytes(request)
    return answer(
        await definition_checks.run(
            caller.workspace_id, funnels.validate, caller.workspace_id, body
        )
    )


@get(
    "/api/funnels",
    opt=described(
        "Saved funnels", answers=FunnelRecord, query=FunnelsQuery, listed=True, tag="funnels"
    ),
)
async def list_funnels(
    request: AnyRequest, caller: NamedDependency[Caller], funnels: NamedDependency[FunnelService]
) -> Response[bytes]:
    """List funnels, by default the newest first."""
    query = read_query(request, FunnelsQuery)
    listing = partial(
        funnels.page,
        caller.workspace_id,
        query.pagination,
        query.search,
        query.sort,
        query.folder,
    )
    return await answer_list(await to_thread.run_sync(listing))


@get(
    "/api/funnels/{funnel_id:str}",
    opt=described("A saved funnel", answers=FunnelRecord, tag="funnels"),
)
async def read_funnel(
    funnel_id: FromPath[str],
    caller: NamedDependency[Caller],
    funnels: NamedDependency[FunnelService],
) -> Response[bytes]:
    return answer(await to_thread.run_sync(funnels.get, caller.workspace_id, funnel_id))


@put(
    "/api/funnels/{funnel_id:str}",
    opt=described(
        "Replace a funnel",
        body=FunnelIn,
        answers=ReplacedFunnelRecord,
        takes_read_only=True,
        tag="funnels",
    ),
)
async def replace_funnel(
    request: AnyRequest,
    funnel_id: FromPath[str],
    caller: NamedDependency[Caller],
    funnels: NamedDependency[FunnelService],
    definition_checks: NamedDependency[FairQueue],
) -> Response[bytes]:
    """Send the whole definition. Changing only the name keeps the revision.

    You can send read-only fields (`id`, `revision`, ...) back with their stored values. An earlier
    `revision` returns 409.
    """
    require_json(request)
    sent = await read_bytes(request)
    body, read_only = await compute_on(sent, split_read_only, sent, FunnelIn, ReplacedFunnelRecord)
    funnel = await definition_checks.run(
        caller.workspace_id, funnels.read, caller.workspace_id, body, FunnelIn
    )
    return answer(
        await to_thread.run_sync(funnels.replace, caller.workspace_id, funnel_id, funnel, read_only)
    )


@patch(
    "/api/funnels/{funnel_id:str}",
    opt=described("Move a funnel", body=FunnelMove, answers=FunnelRecord, tag="funnels"),
)
async def move_funnel(
    request: AnyRequest,
    funnel_id: FromPath[str],
    caller: NamedDependency[Caller],
    funnels: NamedDependency[FunnelService],
) -> Response[bytes]:
    """Moves the funnel to a folder, or out of its folder. Its revision and definition stay the
    same.
    """
    form = await read_json(request, FunnelMove)
    move = partial(funnels.move, caller.workspace_id, funnel_id, form.folder)
    return answer(await to_thread.run_sync(move))


@get(
    "/api/funnels/{funnel_id:str}/revisions",
    opt=described(
        "Revisions of a funnel", answers=RevisionRecord, query=PageQuery, listed=True, tag="funnels"
    ),
)
async def list_revisions(
    request: AnyRequest,
    funnel_id: FromPath[str],
    caller: NamedDependency[Caller],
    funnels: NamedDependency[FunnelService],
) -> Response[bytes]:
    """List revisions, newest first. Every funnel query accepts the number of any `revision`."""
    page = read_query(request, PageQuery).pagination
    return await answer_list(
        await to_thread.run_sync(funnels.revisions, caller.workspace_id, funnel_id, page)
    )


@delete(
    "/api/funnels/{funnel_id:str}",
    opt=described("Delete a funnel", query=RevisionQuery, tag="funnels"),
)
async def delete_funnel(
    request: AnyRequest,
    funnel_id: FromPath[str],
    caller: NamedDependency[Caller],
    funnels: NamedDependency[FunnelService],
) -> Response[None]:
    """Deletes the definition and its revisions. Events are not deleted."""
    revision = read_query(request, RevisionQuery).revision
    await to_thread.run_sync(funnels.delete, caller.workspace_id, funnel_id, revision)
    return no_content()


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
