"""Creates, reads, changes and deletes segments."""

from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel

from penstock.base.clock import Clock, iso
from penstock.base.errors import Fault, Invalid, NotFound
from penstock.base.ids import SegmentId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.funnels.definitions.ad_hoc import AdHocChanges
from penstock.funnels.definitions.regexes import PatternChecker
from penstock.funnels.definitions.schema import ValidationContext, saved_filters
from penstock.funnels.segments import store
from penstock.funnels.segments.schema import SavedSegmentRecord, SegmentChange, SegmentIn
from penstock.http.bodies import parse_model
from penstock.http.read_only import NO_READ_ONLY_FIELDS, ReadOnlyFields, check_revision
from penstock.metadb.database import Database
from penstock.metadb.named import unique_name

M = TypeVar("M", bound=BaseModel)


class SavedSegmentService:
    """Manages segments. Methods raise NotFound if the workspace has no such segment."""

    def __init__(self, database: Database, patterns: PatternChecker, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._patterns = patterns

    def read(self, _: WorkspaceId, body: bytes, model: type[M]) -> M:
        """Parse a body with the filters of a segment.

        Raises Malformed if it is not JSON, and Invalid with all faults if it breaks rules.
        """
        return parse_model(body, model, ValidationContext({}, self._patterns.begin()))

    def create(self, workspace_id: WorkspaceId, segment: SegmentIn) -> SavedSegmentRecord:
        """Save a segment.

        Raises Conflict if the name is taken or the workspace has too many segments.
        """
        now_ms = self._clock()
        segment_id = SegmentId(new_id("seg", now_ms))
        filters = saved_filters(segment.filters)
        with unique_name("segment", segment.name), self._database.write() as db:
            store.add_segment(db, workspace_id, segment_id, segment.name, filters, now_ms)
        return SavedSegmentRecord(
            id=segment_id,
            name=segment.name,
            filters=filters,
            revision=1,
            created_at=iso(now_ms),
            updated_at=iso(now_ms),
        )

    def get(self, workspace_id: WorkspaceId, segment_id: str) -> SavedSegmentRecord:
        with self._database.read() as db:
            return _existing(store.segment(db, workspace_id, segment_id))

    def of_question(self, workspace_id: WorkspaceId, segment_id: str) -> SavedSegmentRecord:
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

        Raises the same errors as `of_question`.
        """
        if changes.segment is None:
            return changes
        filters = self.of_question(workspace_id, changes.segment).filters
        return replace(changes, filters=(*(changes.filters or ()), *filters), segment=None)

    def page(
        self, workspace_id: WorkspaceId, page: Page, search: str = ""
    ) -> Listing[SavedSegmentRecord]:
        """Return a page of segments, newest first.

        search: text that the name must contain, ignoring case.
        """
        with self._database.read() as db:
            return store.segments_page(db, workspace_id, page, search)

    def change(
        self,
        workspace_id: WorkspaceId,
        segment_id: str,
        change: SegmentChange,
        read_only: ReadOnlyFields = NO_READ_ONLY_FIELDS,
    ) -> SavedSegmentRecord:
        """Change the name or the filters of a segment.

        The next report that names the segment uses the new filters. The revision increases only
        with new filters.

        Raises Invalid if a read-only field differs from its stored value.
        """
        now_ms = self._clock()
        with unique_name("segment", change.name or ""), self._database.write() as db:
            saved = _existing(store.segment(db, workspace_id, segment_id, hold=True))
            read_only.check(saved)
            name = change.name or saved.name
            filters = saved.filters if change.filters is None else saved_filters(change.filters)
            if (name, filters) == (saved.name, saved.filters):
                return saved
            revision = saved.revision + (filters != saved.filters)
            store.change_segment(db, segment_id, name, filters, revision, now_ms)
        return saved.model_copy(
            update={
                "name": name,
                "filters": filters,
                "revision": revision,
                "updated_at": iso(now_ms),
            }
        )

    def delete(
        self, workspace_id: WorkspaceId, segment_id: str, revision: int | None = None
    ) -> None:
        """Delete a segment.

        revision: the only one to delete; None: any. Raises Conflict if the segment has another
        revision.
        """
        with self._database.write() as db:
            saved = _existing(store.segment(db, workspace_id, segment_id, hold=True))
            check_revision(revision, saved.revision)
            store.delete_segment(db, segment_id)


def _existing(segment: SavedSegmentRecord | None) -> SavedSegmentRecord:
    if segment is None:
        raise _unknown()
    return segment


def _unknown() -> NotFound:
    return NotFound("There is no such segment in this workspace.")
