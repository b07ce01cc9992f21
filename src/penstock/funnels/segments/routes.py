"""HTTP routes for segments."""

from anyio import to_thread
from litestar import Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.model import Caller
from penstock.base.fair_queue import FairQueue
from penstock.funnels.segments.schema import SavedSegmentRecord, SegmentChange, SegmentIn
from penstock.funnels.segments.service import SavedSegmentService
from penstock.http.answers import answer, answer_list, no_content
from penstock.http.bodies import compute_on, read_bytes, read_query, require_json
from penstock.http.openapi import described
from penstock.http.read_only import split_read_only
from penstock.http.requests import AnyRequest
from penstock.http.schema import RevisionQuery, SearchQuery


@post(
    "/api/segments",
    opt=described("Create a segment", body=SegmentIn, answers=SavedSegmentRecord, tag="segments"),
)
async def create_segment(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    segments: NamedDependency[SavedSegmentService],
    definition_checks: NamedDependency[FairQueue],
) -> Response[bytes]:
    """A segment is a named list of filters on the entry event, for use in any report.

    Names are unique in the workspace. A workspace has at most 500 segments.
    """
    require_json(request)
    body = await read_bytes(request)
    segment = await definition_checks.run(caller.workspace_id, segments.read, body, SegmentIn)
    created = await to_thread.run_sync(segments.create, caller.workspace_id, segment)
    return answer(created, status=201)


@get(
    "/api/segments",
    opt=described(
        "Segments", answers=SavedSegmentRecord, query=SearchQuery, listed=True, tag="segments"
    ),
)
async def list_segments(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    segments: NamedDependency[SavedSegmentService],
) -> Response[bytes]:
    """List segments, newest first."""
    query = read_query(request, SearchQuery)
    return await answer_list(
        await to_thread.run_sync(segments.page, caller.workspace_id, query.pagination, query.search)
    )


@get(
    "/api/segments/{segment_id:str}",
    opt=described("A segment", answers=SavedSegmentRecord, tag="segments"),
)
async def read_segment(
    segment_id: FromPath[str],
    caller: NamedDependency[Caller],
    segments: NamedDependency[SavedSegmentService],
) -> Response[bytes]:
    return answer(await to_thread.run_sync(segments.get, caller.workspace_id, segment_id))


@patch(
    "/api/segments/{segment_id:str}",
    opt=described(
        "Change a segment",
        body=SegmentChange,
        answers=SavedSegmentRecord,
        takes_read_only=True,
        tag="segments",
    ),
)
async def change_segment(
    request: AnyRequest,
    segment_id: FromPath[str],
    caller: NamedDependency[Caller],
    segments: NamedDependency[SavedSegmentService],
    definition_checks: NamedDependency[FairQueue],
) -> Response[bytes]:
    """Fields that you leave out keep their values.

    Reports use the new filters immediately. You can send read-only fields (`id`, `revision`, ...)
    back with their stored values.
    """
    require_json(request)
    sent = await read_bytes(request)
    body, read_only = await compute_on(
        sent, split_read_only, sent, SegmentChange, SavedSegmentRecord
    )
    change = await definition_checks.run(caller.workspace_id, segments.read, body, SegmentChange)
    changed = await to_thread.run_sync(
        segments.change, caller.workspace_id, segment_id, change, read_only
    )
    return answer(changed)


@delete(
    "/api/segments/{segment_id:str}",
    opt=described("Delete a segment", query=RevisionQuery, tag="segments"),
)
async def delete_segment(
    request: AnyRequest,
    segment_id: FromPath[str],
    caller: NamedDependency[Caller],
    segments: NamedDependency[SavedSegmentService],
) -> Response[None]:
    """A report that names a deleted segment gets an error (422)."""
    revision = read_query(request, RevisionQuery).revision
    await to_thread.run_sync(segments.delete, caller.workspace_id, segment_id, revision)
    return no_content()


ROUTES = (create_segment, list_segments, read_segment, change_segment, delete_segment)
