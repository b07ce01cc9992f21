"""Reads and writes segments, inside the caller's transaction."""

from collections.abc import Sequence

from sqlalchemy import Connection, Row, delete, insert, update

from penstock.base.clock import iso
from penstock.base.ids import SegmentId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.funnels.definitions.schema import SavedFilter
from penstock.funnels.segments.schema import SavedSegmentRecord
from penstock.metadb.named import check_number, named_page, named_record
from penstock.metadb.tables import segments

MAX_SEGMENTS = 500
"""Maximum number of segments in a workspace."""


def _segment(row: Row[*tuple[object, ...]]) -> SavedSegmentRecord:
    return SavedSegmentRecord(
        id=row.id,
        name=row.name,
        filters=row.filters,
        revision=row.revision,
        created_at=iso(row.created_at),
        updated_at=iso(row.updated_at),
    )


def add_segment(
    db: Connection,
    workspace_id: WorkspaceId,
    segment_id: SegmentId,
    name: str,
    filters: Sequence[SavedFilter],
    now_ms: int,
) -> None:
    """Add a segment.

    Raises `StoreConflict` if the workspace has a segment with this name, and `Conflict` if it has
    `MAX_SEGMENTS`.
    """
    check_number(db, segments, workspace_id, MAX_SEGMENTS, "segments", code="too_many_segments")
    db.execute(
        insert(segments).values(
            id=segment_id,
            workspace_id=workspace_id,
            name=name,
            filters=[item.model_dump() for item in filters],
            revision=1,
            created_at=now_ms,
            updated_at=now_ms,
        )
    )


def segment(
    db: Connection, workspace_id: WorkspaceId, segment_id: str, *, hold: bool = False
) -> SavedSegmentRecord | None:
    """Read a segment. hold: whether to lock it until the transaction ends."""
    row = named_record(db, segments, workspace_id, segment_id, hold=hold)
    return None if row is None else _segment(row)


def segments_page(
    db: Connection, workspace_id: WorkspaceId, page: Page, search: str
) -> Listing[SavedSegmentRecord]:
    """Return a page of segments, newest first. search: text that the name must contain."""
    rows, total = named_page(db, segments, workspace_id, page, search)
    return Listing([_segment(row) for row in rows], page, total)


def change_segment(
    db: Connection,
    segment_id: str,
    name: str,
    filters: Sequence[SavedFilter],
    revision: int,
    now_ms: int,
) -> None:
    """Change a segment. Raises `StoreConflict` if another segment has this name."""
    changed = {
        "name": name,
        "filters": [item.model_dump() for item in filters],
        "revision": revision,
        "updated_at": now_ms,
    }
    db.execute(update(segments).where(segments.c.id == segment_id).values(changed))


def delete_segment(db: Connection, segment_id: str) -> None:
    db.execute(delete(segments).where(segments.c.id == segment_id))
