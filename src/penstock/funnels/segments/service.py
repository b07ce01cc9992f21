"""Creates, reads, changes and deletes segments."""

from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel

from penstock.base.clock import Clock
from penstock.base.errors import Fault, Invalid, NotFound
from penstock.base.ids import WorkspaceId
from penstock.funnels.definitions.ad_hoc import AdHocChanges
from penstock.funnels.definitions.regexes import PatternChecker
from penstock.funnels.definitions.schema import ValidationContext, saved_filters
from penstock.funnels.segments.schema import SavedSegmentRecord, SegmentChange, SegmentIn
from penstock.http.bodies import parse_model
from penstock.http.read_only import NO_READ_ONLY_FIELDS, ReadOnlyFields
from penstock.metadb.database import Database
from penstock.metadb.tables import segments
from penstock.named_records.service import RevisedRecords

M = TypeVar("M", bound=BaseModel)


class SavedSegmentService(RevisedRecords[SavedSegmentRecord]):
    """Manages segments. Methods raise NotFound if the workspace has no such segment."""

    table, model, noun, prefix = segments, SavedSegmentRecord, "segment", "seg"
    maximum = 500

    def __init__(self, database: Database, patterns: PatternChecker, clock: Clock) -> None:
        super().__init__(database, clock)
        self._patterns = patterns

    def read(self, _: WorkspaceId, body: bytes, model: type[M]) -> M:
        """Parse a body with the filters of a segment.

        Raises Malformed if it is not JSON, and Invalid with all faults if it breaks rules.
        """
        return parse_model(body, model, ValidationContext({}, self._patterns.begin()))

    def create(self, workspace_id: WorkspaceId, segment: SegmentIn) -> SavedSegmentRecord:
        return self._add(workspace_id, segment.name, filters=saved_filters(segment.filters))

    def change(
        self,
        workspace_id: WorkspaceId,
        segment_id: str,
        change: SegmentChange,
        read_only: ReadOnlyFields = NO_READ_ONLY_FIELDS,
    ) -> SavedSegmentRecord:
        """Change a segment. The next report that names it uses the new filters."""
        filters = None if change.filters is None else saved_filters(change.filters)
        return self._change(workspace_id, segment_id, change.name, read_only, filters=filters)

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
