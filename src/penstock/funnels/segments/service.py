"""Creates, reads, changes and deletes segments."""

from dataclasses import replace
from typing import Any

from penstock.base.errors import Fault, Invalid, NotFound
from penstock.base.ids import WorkspaceId
from penstock.funnels.definitions.ad_hoc import AdHocChanges
from penstock.funnels.definitions.schema import saved_filters
from penstock.funnels.segments.schema import SavedSegmentRecord, SegmentChange, SegmentIn
from penstock.metadb.tables import segments
from penstock.named_records.service import RevisedRecords


class SavedSegmentService(RevisedRecords[SavedSegmentRecord]):
    """Manages segments. Methods raise NotFound if the workspace has no such segment."""

    table, model, noun, prefix = segments, SavedSegmentRecord, "segment", "seg"
    new, changes, maximum = SegmentIn, SegmentChange, 500
    path, tag, validated_by = "/api/segments", "segments", "patterns"
    on_create = """A segment is a named list of filters on the entry event, for use in any report.

    Names are unique in the workspace. A workspace has at most 500 segments."""
    on_change = """Fields that you leave out keep their values.

    Reports use the new filters immediately. You can send read-only fields (`id`, `revision`, ...)
    back with their stored values."""
    on_delete = "A report that names a deleted segment gets an error (422)."

    def _columns(self, body: SegmentIn | SegmentChange) -> dict[str, Any]:
        if body.filters is None:
            return {}
        return {"filters": [each.model_dump() for each in saved_filters(body.filters)]}

    def for_request(self, workspace_id: WorkspaceId, segment_id: str) -> SavedSegmentRecord:
        """Return the segment that a request names. Raises Invalid if there is no such segment."""
        try:
            return self.get(workspace_id, segment_id)
        except NotFound:
            message = (
                "There is no such segment in this workspace. It may have been deleted: leave "
                "segment out, or choose one from GET /api/segments."
            )
            raise Invalid([Fault("segment", "segment_not_found", message)]) from None

    def expand(self, workspace_id: WorkspaceId, changes: AdHocChanges) -> AdHocChanges:
        """Return the same changes with the filters of their segment instead of its ID.

        Raises the same errors as `for_request`.
        """
        if changes.segment is None:
            return changes
        filters = self.for_request(workspace_id, changes.segment).filters
        return replace(changes, filters=(*(changes.filters or ()), *filters), segment=None)
