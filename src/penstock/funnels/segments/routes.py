"""HTTP routes for segments."""

from penstock.accounts.model import Caller
from penstock.base.paging import Listing
from penstock.funnels.segments.schema import SavedSegmentRecord, SegmentChange, SegmentIn
from penstock.funnels.segments.service import SavedSegmentService
from penstock.http.handlers import route
from penstock.http.read_only import ReadOnlyFields
from penstock.http.schema import RevisionQuery, SearchQuery

_ALL = "/api/segments"
_ONE = "/api/segments/{segment_id:str}"


@route("POST", _ALL, "Create a segment", validated_by="patterns", tag="segments")
def create_segment(
    caller: Caller, segments: SavedSegmentService, segment: SegmentIn
) -> SavedSegmentRecord:
    """A segment is a named list of filters on the entry event, for use in any report.

    Names are unique in the workspace. A workspace has at most 500 segments.
    """
    return segments.create(caller.workspace_id, segment)


@route("GET", _ALL, "Segments", tag="segments")
def list_segments(
    caller: Caller, segments: SavedSegmentService, query: SearchQuery
) -> Listing[SavedSegmentRecord]:
    """List segments, newest first."""
    return segments.page(caller.workspace_id, query.pagination, query.search)


@route("GET", _ONE, "A segment", tag="segments")
def read_segment(
    caller: Caller, segments: SavedSegmentService, segment_id: str
) -> SavedSegmentRecord:
    return segments.get(caller.workspace_id, segment_id)


@route("PATCH", _ONE, "Change a segment", validated_by="patterns", tag="segments")
def change_segment(
    caller: Caller,
    segments: SavedSegmentService,
    segment_id: str,
    change: SegmentChange,
    read_only: ReadOnlyFields,
) -> SavedSegmentRecord:
    """Fields that you leave out keep their values.

    Reports use the new filters immediately. You can send read-only fields (`id`, `revision`, ...)
    back with their stored values.
    """
    return segments.change(caller.workspace_id, segment_id, change, read_only)


@route("DELETE", _ONE, "Delete a segment", tag="segments")
def delete_segment(
    caller: Caller, segments: SavedSegmentService, segment_id: str, query: RevisionQuery
) -> None:
    """A report that names a deleted segment gets an error (422)."""
    segments.delete(caller.workspace_id, segment_id, query.revision)


ROUTES = (create_segment, list_segments, read_segment, change_segment, delete_segment)
