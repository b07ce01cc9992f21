"""Plain types for imports. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from penstock.base.clock import iso
from penstock.base.errors import Fault
from penstock.base.gaps import Gap
from penstock.base.ids import DeletionId, ImportId, WebsiteId, WorkspaceId
from penstock.base.wording import count_of
from penstock.events.imports.formats.schema import ImportMapping

STAGED_MS = 24 * 3600 * 1000
"""Time for which the file of an import that nobody starts is kept, in milliseconds."""

MAX_STORED_REJECTS = 10_000
"""Maximum number of rejected lines that an import stores. Further ones are only counted."""


class ImportState(StrEnum):
    """State of an import.

    checking: a dry run reads the file, or is about to. checked: the dry run has ended, and the
    import waits for its start.
    queued: the file is on disk but has not been read yet.
    failed: the file cannot be read completely, or has too many rejected lines or no valid event.
    cancelled: someone cancelled it. Failed and cancelled imports keep the events stored so far.
    undone: a deletion removes, or has removed, what it stored.
    """

    CHECKING = "checking"
    CHECKED = "checked"
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNDONE = "undone"


STAGED = (ImportState.CHECKING, ImportState.CHECKED)
"""States of an import that has a dry run and has not been started."""
STARTED = (ImportState.QUEUED, ImportState.RUNNING)
"""States of an import that was started and is not finished."""
UNFINISHED = (*STAGED, *STARTED)


@dataclass(frozen=True, slots=True)
class ImportJob:
    """An imported file and its progress.

    format: name of its reader. bytes_total, bytes_read: size of the file as sent, compressed or
    not, and how much of it has been read. lines_read: lines read so far, including empty_lines.
    duplicates: lines whose event was already stored. first_event_at_ms, last_event_at_ms: span of
    its accepted and duplicate events. affected_from_ms, affected_to_ms: span of these and of
    rejected lines; all of the past if a rejected line has no valid time. error: why a failed import
    stopped. gap_dismissed_at_ms, gap_dismissed_by: when its gap was dismissed, and the ID of the
    user who dismissed it. warnings: codes of the warnings that an earlier version noted, which did
    not count lines. warning_lines: number of lines with each warning, by code. identify_lines:
    lines that link visitors to a user, without an event. ignored_lines: lines that contain nothing
    that Penstock stores. identity_conflicts: lines whose visitor belongs to another user, so that
    nothing was merged. accepts_stored_events: whether it may have lines of type `stored`, because
    its sender had the permission manage. mapping: the uses of the file's columns, if it is a table
    with a mapping; it changes only before the import is started. sent_by: ID of the key or user who
    sent the file; None if an earlier version received it. revision: rises from 1 with each change
    of the mapping. timezone: time zone of times without an offset, in the file of another product;
    None for UTC. is_undoable: whether everything that it stored has its ID. missing_lines: lines
    that were dropped as duplicates of imports that were undone since. undo_id: ID of the deletion
    that undoes it.
    """

    id: ImportId
    workspace_id: WorkspaceId
    website_id: WebsiteId
    state: ImportState
    format: str
    sha256: str
    bytes_total: int
    created_at_ms: int
    updated_at_ms: int
    file_name: str | None = None
    bytes_read: int = 0
    lines_read: int = 0
    accepted: int = 0
    duplicates: int = 0
    rejected: int = 0
    first_event_at_ms: int | None = None
    last_event_at_ms: int | None = None
    affected_from_ms: int | None = None
    affected_to_ms: int | None = None
    error: str | None = None
    finished_at_ms: int | None = None
    gap_dismissed_at_ms: int | None = None
    gap_dismissed_by: str | None = None
    warnings: tuple[str, ...] = ()
    warning_lines: Mapping[str, int] = field(default_factory=dict)
    empty_lines: int = 0
    identify_lines: int = 0
    ignored_lines: int = 0
    identity_conflicts: int = 0
    accepts_stored_events: bool = False
    mapping: ImportMapping | None = None
    sent_by: str | None = None
    revision: int = 1
    timezone: str | None = None
    is_undoable: bool = False
    missing_lines: int = 0
    undo_id: DeletionId | None = None

    @property
    def is_open(self) -> bool:
        return self.state in STARTED

    @property
    def is_staged(self) -> bool:
        """Whether the import has a dry run and has not been started."""
        return self.state in STAGED

    @property
    def expires_at_ms(self) -> int | None:
        """When the file is removed, unless the import is started; None for other imports."""
        return self.created_at_ms + STAGED_MS if self.is_staged else None

    @property
    def has_events(self) -> bool:
        """Whether any line had a valid event that is stored, from this import or an earlier one."""
        return self.accepted + self.duplicates > 0

    @property
    def has_gap(self) -> bool:
        """Whether reports lack events of this file. A file without valid events leaves no gap."""
        if self.state is ImportState.UNDONE:
            return False
        is_incomplete = self.state is not ImportState.DONE or self.rejected + self.missing_lines > 0
        return self.is_open or (self.has_events and is_incomplete)

    @property
    def warning_counts(self) -> Mapping[str, int | None]:
        """Number of lines with each warning, by code; None if an earlier version noted it."""
        return {**dict.fromkeys(self.warnings), **self.warning_lines}

    @property
    def gap(self) -> Gap:
        """The change of the website's history so far, for the coverage of reports.

        An incomplete import may lack events from any time before its creation. A dismissed gap
        keeps its note.
        """
        is_incomplete = self.state is not ImportState.DONE
        if is_incomplete or self.affected_from_ms is None or self.affected_to_ms is None:
            affected_range = (0, max(self.affected_to_ms or 0, self.created_at_ms))
        else:
            affected_range = (self.affected_from_ms, self.affected_to_ms)
        from_ms, to_ms = self.first_event_at_ms, self.last_event_at_ms
        if from_ms is None or to_ms is None:
            from_ms, to_ms = affected_range
        return Gap(
            "import",
            self.website_id,
            from_ms,
            to_ms,
            affected_range,
            self.created_at_ms,
            self.state,
            self._gap_note,
            self.gap_dismissed_at_ms,
        )

    @property
    def _gap_note(self) -> str | None:
        """A sentence about missing events; None if the import rejected nothing."""
        name = f"The import of {iso(self.created_at_ms)}"
        match self.state:
            case ImportState.QUEUED | ImportState.RUNNING:
                return f"{name} is still running; not all of its events are counted yet."
            case ImportState.FAILED:
                return f"{name} stopped early; its remaining events are missing."
            case ImportState.CANCELLED:
                return f"{name} was cancelled early; its remaining events are missing."
        reasons = []
        if self.rejected:
            reasons.append(f"rejected {count_of(self.rejected, 'line')}")
        if self.missing_lines:
            lines = count_of(self.missing_lines, "line")
            reasons.append(f"dropped {lines} as duplicates of an import that was undone since")
        return f"{name} {' and '.join(reasons)}; their events are missing." if reasons else None


def completed(job: ImportJob) -> ImportJob:
    """Return the job after its whole file was read: done, or failed if nothing was imported."""
    job = replace(job, bytes_read=job.bytes_total)
    if job.has_events or job.identify_lines:
        return replace(job, state=ImportState.DONE)
    error = "The file has only empty lines." if job.empty_lines else "The file is empty."
    if job.lines_read > job.empty_lines:
        error = "The file has a header and no events."
    if job.ignored_lines:
        error = "The file has no line that Penstock stores."
    if job.rejected:
        lines = "The only line was" if job.rejected == 1 else f"All {job.rejected:,} lines were"
        error = f"{lines} rejected, so nothing was imported."
    return replace(job, state=ImportState.FAILED, error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedImport(ImportJob):
    """An import that is not finished, without its mapping. workspace, website: their names."""

    workspace: str
    website: str


class DuplicateLines(NamedTuple):
    """Lines of an import that were not stored, because another import had stored their events."""

    import_id: ImportId
    file_name: str | None
    lines: int


class Reject(NamedTuple):
    """A rejected line with all its faults.

    line: line number, from 1. stated_ms: its timestamp, if valid. excerpt: its text, redacted and
    shortened. None if the line was too long or came after the file's first 1,000 rejected lines, or
    if the text was removed since.
    """

    line: int
    faults: Sequence[Fault]
    stated_ms: int | None = None
    excerpt: str | None = None


class Excerpt(NamedTuple):
    """The text of a rejected line. faults: the line's faults, as stored."""

    import_id: ImportId
    line: int
    faults: Any
    text: str


class ExcerptSearch(NamedTuple):
    """The result of a search for excerpts that contain one of the given IDs.

    contains: function that tests whether a string contains one of the IDs. lines_read: number of
    lines of each import that had been read at the time of the search.
    """

    contains: Callable[[str], bool]
    excerpts: Sequence[Excerpt]
    lines_read: Mapping[ImportId, int]
