"""Wire types for undone imports."""

from typing import Self

from penstock.events.deletions.schema import DeletionRecord
from penstock.events.deletions.undos.model import Undo, UndoCounts
from penstock.events.imports.model import DuplicateLines
from penstock.http.schema import Iso, Query, Record


class UndoQuery(Query):
    """Options of the undo of an import."""

    dry_run: bool = False
    """true only counts what the undo would remove."""


class DuplicateLinesRecord(Record):
    """Lines of another import that were dropped because this import had stored their events."""

    import_id: str
    file_name: str | None
    lines: int

    @classmethod
    def from_lines(cls, duplicates: DuplicateLines) -> Self:
        return cls.from_object(duplicates)


class UndoCountsRecord(Record):
    """Counts of the data that the undo of an import removes."""

    events: int
    first_event_at: Iso | None
    """Time of the first event that is removed."""
    last_event_at: Iso | None
    visitors: int
    """Visitor IDs that nothing but this import has named."""
    merges: int
    """Visitors that count as themselves again, because only this import linked them to a user."""
    user_links: int
    """Users whose link is removed, because nothing but this import has named them."""
    users_with_traits: int
    """Users about whom the import states traits. Traits that others stated too are kept."""
    duplicate_lines: int
    """Lines of other imports that were dropped as duplicates of this one. Their events are missing
    afterwards, until these files are imported again.
    """
    duplicates: tuple[DuplicateLinesRecord, ...]
    """These lines by import, most lines first."""

    @classmethod
    def from_counts(cls, counts: UndoCounts) -> Self:
        events = counts.events
        return cls.from_object(
            counts.identities,
            events=0 if events is None else events.events,
            first_event_at=None if events is None else events.first_ms,
            last_event_at=None if events is None else events.last_ms,
            duplicate_lines=sum(each.lines for each in counts.duplicates),
            duplicates=tuple(map(DuplicateLinesRecord.from_lines, counts.duplicates)),
        )


class UndoRecord(Record):
    """The undo of an import."""

    import_id: str
    removes: UndoCountsRecord | None
    """Counts at the time of the request. Null if the import was undone before."""
    deletion: DeletionRecord | None
    """The deletion that removes it. Null in a dry run."""

    @classmethod
    def from_undo(cls, undo: Undo) -> Self:
        return cls.from_object(
            undo,
            removes=None if undo.counts is None else UndoCountsRecord.from_counts(undo.counts),
            deletion=None
            if undo.deletion is None
            else DeletionRecord.from_deletion(undo.deletion, []),
        )
