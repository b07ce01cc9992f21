"""Plain types for exports. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from dataclasses import dataclass

from penstock.base.ids import ExportId, WorkspaceId
from penstock.base.row_files import RowFormat


@dataclass(frozen=True, slots=True)
class Export:
    """An export of a workspace that a client began.

    destination: folder or bucket, as the client names it. exported_by: email address of the user,
    or name of the API key. first_day, last_day: days with events that it read, in UTC; None before
    it read any. finished_at_ms: None until all files are complete.
    """

    id: ExportId
    workspace_id: WorkspaceId
    destination: str
    file_format: RowFormat
    exported_by: str
    first_day: str | None
    last_day: str | None
    started_at_ms: int
    finished_at_ms: int | None
