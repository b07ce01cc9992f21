"""Use cases for dry runs: files whose import has not started. Methods block."""

from typing import Any

from sqlalchemy import Connection

from penstock.accounts.model import Caller
from penstock.base.clock import iso
from penstock.base.errors import Conflict, Invalid, NotFound
from penstock.base.wording import listed
from penstock.core import Core
from penstock.events.imports import store
from penstock.events.imports.access import (
    changed_import,
    require_few_open,
    seen_import,
    sender_of,
)
from penstock.events.imports.dry_runs.schema import ImportSummaryRecord, UsedMappingRecord
from penstock.events.imports.dry_runs.worker import TOPIC, DryRunWorker
from penstock.events.imports.formats.schema import CompleteMapping
from penstock.events.imports.formats.table import mapping_fault, reader_named
from penstock.events.imports.mappings.service import find_equal_mapping
from penstock.events.imports.model import STAGED_MS, ImportJob, ImportState
from penstock.http.scopes import KeyScope

_MAX_STAGED, _MAX_STAGED_OF_KEY = 20, 10
"""Maximum number of files whose import has not started, in a workspace, and from a key without the
scope manage.
"""
_MAX_DIFFERENCES = 5
"""Maximum number of differences between two mappings that an error names."""


class DryRunService:
    """Shows what a file contains, and starts its import. Until then, its mapping can change."""

    def __init__(self, core: Core, reader: DryRunWorker) -> None:
        self._database, self._clock = core.database, core.clock
        self.files, self.worker, self.running = reader.files, reader.worker, reader.running

    def require_room(self, db: Connection, sender: Caller) -> None:
        """Require room for another file before its start. A key without the scope manage cannot
        stage more than half of the files.
        """
        unfinished = store.unfinished_imports(db, workspace_id=sender.workspace_id)
        files = [each for each in unfinished if each.is_staged]
        own = [file for file in files if file.sent_by == sender_of(sender)]
        may_use_all = KeyScope.MANAGE in sender.scopes
        if not may_use_all and len(own) >= _MAX_STAGED_OF_KEY:
            reached = f"This key has sent {len(own)} files"
        elif len(files) >= _MAX_STAGED:
            reached = f"This workspace has {len(files)} files"
        else:
            return
        usable = files if may_use_all else own
        way_out = (
            f"Start or cancel one, such as {usable[0].id}."
            if usable
            else "Ask a member to start or cancel one, or wait: the oldest is removed at "
            f"{iso(files[0].created_at_ms + STAGED_MS)}."
        )
        raise Conflict(
            f"{reached} that nobody has started, the limit. {way_out}",
            code="too_many_dry_runs",
        )

    def summary(self, actor: Caller, import_id: str) -> ImportSummaryRecord:
        """Return the result of an import's dry run.

        Raises `NotFound` if the import had no dry run or was cancelled before its start, and
        `Conflict` if the dry run has not ended.
        """
        with self._database.read() as db:
            job = seen_import(store.find(db, actor.workspace_id, import_id), actor)
        summary = self.find_summary(job)
        if summary is not None:
            return summary
        if job.state is ImportState.CHECKING:
            raise _not_checked(job)
        raise NotFound(
            "This import has no summary. Send the file with dryRun=true to get one.",
            code="no_summary",
        )

    def find_summary(self, job: ImportJob) -> ImportSummaryRecord | None:
        """Find the result of an import's dry run; None if there was none or it has not ended."""
        with self._database.read() as db:
            summary = store.summary_of(db, job)
            saved = _saved_mapping(db, job)
        if summary is None:
            return None
        return ImportSummaryRecord.model_validate(summary).model_copy(
            update={"saved_mapping": saved}
        )

    def start(
        self,
        actor: Caller,
        import_id: str,
        revision: int | None = None,
        mapping: CompleteMapping | None = None,
    ) -> ImportJob:
        """Begin the import of a file after its dry run.

        revision: revision of the summary that the actor has read. mapping: the mapping that the
        actor expects. Raises `Conflict` if the mapping has changed since or is another one, if the
        dry run has not ended, or if the import was started or has ended, and `QueueFull` if the
        workspace has too many unfinished imports.
        """
        with self._database.write() as db:
            job = changed_import(db, actor, import_id)
            if job.is_staged and revision is not None and revision != job.revision:
                raise Conflict(
                    f"The import has revision {job.revision} by now, because its mapping was "
                    "changed. Read its summary again before you start it.",
                    code="stale_revision",
                )
            if job.state is ImportState.CHECKING:
                raise _not_checked(job)
            if job.state is not ImportState.CHECKED:
                raise _already_started(job)
            if mapping is not None:
                _require_checked(job, mapping)
            if job.mapping is not None and (gaps := job.mapping.gaps()):
                raise Invalid(gaps)
            require_few_open(db, job.workspace_id)
            job = self._restart(db, job, state=ImportState.QUEUED)
            summary = ImportSummaryRecord.model_validate(store.summary_of(db, job))
            store.save_summary(db, job.id, summary.without_content().model_dump(mode="json"))
        self.worker.wake()
        return job

    def change_mapping(self, actor: Caller, import_id: str, mapping: CompleteMapping) -> ImportJob:
        """Change the mapping of a table before its import is started, and read the file again.

        Raises `Conflict` if the import was started or has ended, and `Invalid` if its format is
        not a table.
        """
        with self._database.write() as db:
            job = changed_import(db, actor, import_id)
            if not job.is_staged:
                raise _already_started(job)
            reader = reader_named(job.format)
            if reader.mapped is None:
                raise Invalid([mapping_fault(reader)])
            job = self._restart(
                db, job, state=ImportState.CHECKING, mapping=mapping, revision=job.revision + 1
            )
            store.remove_summary(db, job.id)
        self.worker.wake()
        return job

    def _restart(self, db: Connection, job: ImportJob, **changes: Any) -> ImportJob:
        """Change an import so that a worker reads its file from the start."""
        self._database.changes.announce(db, TOPIC)
        return store.change(db, job, self._clock(), bytes_read=0, lines_read=0, **changes)


def _saved_mapping(db: Connection, job: ImportJob) -> UsedMappingRecord | None:
    """Find a saved mapping with the same content as the mapping of the import."""
    if job.mapping is None:
        return None
    saved = find_equal_mapping(db, job.workspace_id, job.mapping)
    return None if saved is None else UsedMappingRecord(id=saved.id, name=saved.name)


def _require_checked(job: ImportJob, mapping: CompleteMapping) -> None:
    """Raise `Conflict` unless the dry run has used this mapping."""
    if job.mapping is None:
        used = "without a mapping"
    elif differences := mapping.differences(job.mapping):
        shown, more = differences[:_MAX_DIFFERENCES], len(differences) - _MAX_DIFFERENCES
        named = listed([*shown, f"{more:,} more"] if more > 0 else shown)
        used = f"with another mapping, which differs in {named}"
    else:
        return
    raise Conflict(
        f"The file was checked {used}. Check it with this mapping first: send it to PUT "
        f"/api/imports/{job.id}/mapping, and start the import after its dry run.",
        code="mapping_not_checked",
    )


def _not_checked(job: ImportJob) -> Conflict:
    return Conflict(
        f"The dry run has read {job.bytes_read:,} of {job.bytes_total:,} bytes. Wait until the "
        "state of the import is checked, or cancel the import.",
        code="import_not_checked",
    )


def _already_started(job: ImportJob) -> Conflict:
    if job.is_open or job.state is ImportState.DONE:
        return Conflict("The import was already started.", code="import_started")
    return Conflict(
        f"The import is {job.state}. Send the file again.",
        code="import_finished",
    )
