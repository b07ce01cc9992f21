"""Plain types for exports. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.base.ids import ExportId, WorkspaceId
from penstock.base.row_files import RowFormat
from penstock.events.deletions.model import RemainingExport


@dataclass(frozen=True, slots=True)
class Export:
    """An export of a workspace that a client began.

    destination: folder or bucket, as the client names it. destination_id: stays the same when the
    files move or get another name; equal to destination if the client has no ID. exported_by: email
    address of the user, or name of the API key. first_day, last_day: days with events that it read,
    in UTC; None before it read any. finished_at_ms: None until all files are complete.
    """

    id: ExportId
    workspace_id: WorkspaceId
    destination: str
    destination_id: str
    file_format: RowFormat
    exported_by: str
    started_at_ms: int
    first_day: str | None = None
    last_day: str | None = None
    finished_at_ms: int | None = None


def remaining_exports(exports: Iterable[Export], until_ms: int) -> list[RemainingExport]:
    """Return the exports that had started by a time, newest first, with one for each destination.

    A complete export that started later replaced the files of its destination, so these
    destinations are left out. exports: all of one workspace, newest first.
    """
    names, replaced, remaining = dict[str, str](), set[str](), dict[str, RemainingExport]()
    for export in exports:
        destination_id = export.destination_id
        names.setdefault(destination_id, export.destination)
        if export.started_at_ms > until_ms:
            if export.finished_at_ms is not None:
                replaced.add(destination_id)
        elif destination_id not in replaced:
            first_day, last_day = export.first_day, export.last_day
            newer = remaining.get(destination_id)
            if newer is not None:
                first_day = min(filter(None, (newer.first_day, first_day)), default=None)
                last_day = max(filter(None, (newer.last_day, last_day)), default=None)
            started_at_ms = export.started_at_ms if newer is None else newer.started_at_ms
            remaining[destination_id] = RemainingExport(
                names[destination_id], destination_id, started_at_ms, first_day, last_day
            )
    return list(remaining.values())
