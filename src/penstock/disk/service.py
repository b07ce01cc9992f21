"""Each workspace's budget for files that wait on the disk."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from sqlalchemy import Connection

from penstock.base.errors import OutOfDisk
from penstock.base.ids import WorkspaceId
from penstock.disk import store
from penstock.disk.model import DiskUse, FileKind, FileUse
from penstock.metadb.database import Database
from penstock.settings import Settings

_NOUNS = {
    FileKind.UPLOADS: "uploads",
    FileKind.DRY_RUNS: "imports before their start",
    FileKind.IMPORTS: "started imports",
    FileKind.IMPORT_MAPPINGS: "saved mappings",
    FileKind.JOB_RESULTS: "results of jobs",
}
_WAY_OUT = (
    "Start or cancel an import, wait until started imports are done, or delete the results of "
    "jobs. GET /api/settings/disk shows what uses the disk."
)


class DiskService:
    """Methods block. space: the disk of the data folder."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self.space = settings.disk_space
        self._max_bytes = settings.workspace_files_bytes
        self._uploads: Counter[WorkspaceId] = Counter()
        self._uploaded_bytes: Counter[WorkspaceId] = Counter()
        self._lock = Lock()  # guards both counters

    def use(self, workspace_id: WorkspaceId) -> DiskUse:
        """Return what the waiting files of a workspace use."""
        return self._disk_use(workspace_id, self._stored_files(workspace_id))

    def _stored_files(self, workspace_id: WorkspaceId) -> list[FileUse]:
        with self._database.read() as db:
            return store.file_uses(db, workspace_id)

    def _disk_use(self, workspace_id: WorkspaceId, files: list[FileUse]) -> DiskUse:
        with self._lock:
            uploads = FileUse(
                FileKind.UPLOADS, self._uploads[workspace_id], self._uploaded_bytes[workspace_id]
            )
        return DiskUse([uploads, *files], self._max_bytes, self.space.is_low())

    def require_room(
        self, db: Connection, workspace_id: WorkspaceId, new_bytes: int, sender_id: str | None
    ) -> None:
        """Require room for a file of this size, in the budget and on the disk.

        sender_id: a sender that can use only half of the budget, or None. Raises `OutOfDisk`.
        """
        self.space.require("uploads")
        files = store.file_uses(db, workspace_id)
        if sum(use.bytes for use in files) + new_bytes > self._max_bytes:
            raise self._budget_used(self._disk_use(workspace_id, files))
        if sender_id is None:
            return
        sent_bytes = store.sent_bytes(db, workspace_id, sender_id)
        if sent_bytes + new_bytes > self._max_bytes // 2:
            raise OutOfDisk(
                f"The unfinished imports of this key have {sent_bytes:,} bytes. A key without the "
                f"permission manage can use {self._max_bytes // 2:,} bytes, half of what the "
                f"workspace may use. {_WAY_OUT}",
                code="workspace_disk_full",
            )

    @contextmanager
    def upload(self, workspace_id: WorkspaceId) -> Iterator[Callable[[int], None]]:
        """Count an upload while it arrives.

        Yields a function to call with the number of new bytes before they are written. It blocks,
        and raises `OutOfDisk` if the budget or the disk has no room for them.
        """
        own_bytes, stored = 0, None

        def add(new_bytes: int) -> None:
            nonlocal own_bytes, stored
            self.space.require("uploads")
            own_bytes += new_bytes
            with self._lock:
                self._uploaded_bytes[workspace_id] += new_bytes
            stored = stored or self._stored_files(workspace_id)
            use = self._disk_use(workspace_id, stored)
            if use.bytes > self._max_bytes:
                raise self._budget_used(use)

        with self._lock:
            self._uploads[workspace_id] += 1
        try:
            yield add
        finally:
            with self._lock:
                self._uploads[workspace_id] -= 1
                self._uploaded_bytes[workspace_id] -= own_bytes

    def require_room_for_result(self, workspace_id: WorkspaceId, size: int) -> None:
        """Require room for the result of a job. Raises `OutOfDisk`."""
        self.space.require("large results of jobs")
        use = self.use(workspace_id)
        if use.bytes + size > self._max_bytes:
            raise self._budget_used(use)

    def _budget_used(self, use: DiskUse) -> OutOfDisk:
        kinds = ", ".join(f"{_NOUNS[each.kind]} {each.bytes:,}" for each in use.files if each.bytes)
        return OutOfDisk(
            f"The waiting files of this workspace may have {use.max_bytes:,} bytes, and there is "
            f"not enough room left ({kinds or 'nothing is stored yet'}). {_WAY_OUT}",
            code="workspace_disk_full",
        )
