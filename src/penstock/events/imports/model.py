"""Plain types of imports. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from penstock.base.clock import iso
from penstock.base.errors import Fault
from penstock.base.ids import ImportId, WebsiteId, WorkspaceId


class ImportState(StrEnum):
    """queued: the file is kept, nothing is read yet. failed: the file cannot be read any further; what was read before stays."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ImportJob:
    """One file and how far it is read.

    bytes_total, bytes_read: of the file as it was sent, compressed or not. lines_read: empty lines too.
    duplicates: lines whose event was known already. first_event_at_ms, last_event_at_ms: of its events, known before or not.
    reach_from_ms, reach_to_ms: of those and of what rejected lines tell of; the whole past where one does not tell its time.
    error: why a failed import stopped.
    """

    id: ImportId
    workspace_id: WorkspaceId
    website_id: WebsiteId
    state: ImportState
    file_name: str | None
    sha256: str
    bytes_total: int
    bytes_read: int
    lines_read: int
    accepted: int
    duplicates: int
    rejected: int
    first_event_at_ms: int | None
    last_event_at_ms: int | None
    reach_from_ms: int | None
    reach_to_ms: int | None
    error: str | None
    created_at_ms: int
    updated_at_ms: int
    finished_at_ms: int | None

    @property
    def is_open(self) -> bool:
        return self.state in (ImportState.QUEUED, ImportState.RUNNING)


class Reject(NamedTuple):
    """A line that was not taken, and every reason. line: from 1. stated_ms: when it says that it happened; None where it does not."""

    line: int
    faults: Sequence[Fault]
    stated_ms: int | None = None


class ImportSpan(NamedTuple):
    """What an import touches of a website's history; of one that runs, what it touched so far. at_ms: when it was asked for.

    reach: the first and last moment of which it touched something, or may have left something out.
    """

    website_id: WebsiteId
    from_ms: int
    to_ms: int
    reach: tuple[int, int]
    at_ms: int
    state: ImportState
    rejected: int

    @property
    def note(self) -> str | None:
        """What the import leaves open, in a sentence; None when it is done and no line was rejected."""
        this = f"The import of {iso(self.at_ms)}"
        match self.state:
            case ImportState.QUEUED | ImportState.RUNNING:
                return f"{this} is still running; not all of its events are counted yet."
            case ImportState.FAILED:
                return f"{this} stopped half-way; the rest of its events is missing."
            case ImportState.DONE if self.rejected:
                lines = "1 line" if self.rejected == 1 else f"{self.rejected:,} lines"
                return f"{this} rejected {lines}; what they told is missing."
        return None
