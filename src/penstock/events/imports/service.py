"""Use cases for imports. Synchronous methods block, so call them from a worker thread."""

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from anyio import to_thread
from sqlalchemy import Connection

from penstock.accounts.keys.service import require_website_of_key
from penstock.accounts.members.service import require_owner
from penstock.accounts.model import Caller, CurrentUser
from penstock.accounts.websites.service import WebsiteService
from penstock.base.clock import Clock, iso
from penstock.base.errors import (
    Conflict,
    Fault,
    Invalid,
    NotFound,
    QueueFull,
    StoreUnavailable,
    Unavailable,
)
from penstock.base.fair_queue import FairQueue, QueueLimits
from penstock.base.ids import ImportId, WebsiteId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.base.wording import listed
from penstock.events.imports import store
from penstock.events.imports.checks import TOPIC as CHECKS_TOPIC
from penstock.events.imports.checks import CheckWorker
from penstock.events.imports.content import require_format
from penstock.events.imports.files import ImportFiles
from penstock.events.imports.formats.reader import Reader
from penstock.events.imports.formats.schema import CompleteMapping, ImportMapping, OtherColumns
from penstock.events.imports.formats.table import READERS, reader_named, reader_of_request
from penstock.events.imports.mappings.service import ImportMappingService
from penstock.events.imports.mappings.store import mappings_of
from penstock.events.imports.model import (
    ImportJob,
    ImportSpan,
    ImportState,
    Reject,
    StagedFile,
)
from penstock.events.imports.schema import (
    ImportQuery,
    ImportSummaryRecord,
    UsedMappingRecord,
)
from penstock.events.imports.worker import TOPIC, ImportWorker
from penstock.events.intake import Intake
from penstock.http.bodies import bad_parameter
from penstock.http.schema import RecordsQuery
from penstock.http.scopes import KeyScope, require_scope
from penstock.metadb.database import Database
from penstock.settings import Settings

_ANY_COLUMNS = ImportMapping(columns=[], otherColumns=OtherColumns.IGNORED)
_MAX_OPEN_JOBS = 20


class _StagedLimits(NamedTuple):
    """Limits for files before their start. uploads: their maximum size, as a multiple of the
    largest upload.
    """

    files: int
    uploads: int

    def reached(self, files: Sequence[StagedFile], upload_bytes: int) -> str | None:
        """Return what the files have too many of; None if there is room for another.

        upload_bytes: maximum size of an upload.
        """
        size = sum(file.size for file in files)
        if len(files) >= self.files:
            return f"{len(files)} files"
        return f"files of {size:,} bytes" if size >= self.uploads * upload_bytes else None


_STAGED_OF_WORKSPACE = _StagedLimits(files=20, uploads=4)
_STAGED_OF_KEY = _StagedLimits(files=10, uploads=2)
"""Limits for the files of a key without the scope manage."""
_UPLOADS = QueueLimits(slots=32, slots_per_key=4, waiting=0, waiting_per_key=0)
"""Limits for uploads. There is no queue, because an upload may take hours."""


class ImportService:
    """Receives files. A worker reads each workspace's files, oldest first."""

    def __init__(
        self,
        database: Database,
        websites: WebsiteService,
        mappings: ImportMappingService,
        intake: Intake,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._database, self._websites, self._settings, self._clock = (
            database,
            websites,
            settings,
            clock,
        )
        self._mappings = mappings
        self._files = ImportFiles(settings.data / "imports")
        self._staged_files = ImportFiles(settings.data / "staged")
        self._uploads = FairQueue("uploads", _UPLOADS, code="too_many_imports", retry_after_s=30)
        self.worker = ImportWorker(database, websites, intake, self._files, settings, clock).worker
        self.check_worker = CheckWorker(
            database,
            websites,
            self._staged_files,
            self._files,
            settings,
            clock,
            on_started=self.worker.wake,
            is_busy=lambda: intake.waiting() > 0,
        ).worker

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read files during the context, including interrupted imports. Needs a running intake."""
        await to_thread.run_sync(self._remove_left_over_files)
        async with self.worker.running(), self.check_worker.running():
            yield

    def _remove_left_over_files(self) -> None:
        """Remove the remains of a crash: partial uploads, and files without an open job."""
        self._files.remove_unfinished()
        self._staged_files.remove_unfinished()
        with self._database.read() as db:
            open_ids = {str(job.id) for job in store.open_jobs(db)}
        for import_id in self._files.present() - open_ids:
            self._files.remove(import_id)

    async def receive(
        self,
        sender: Caller,
        query: ImportQuery,
        media_type: str,
        chunks: AsyncIterator[bytes],
    ) -> ImportJob:
        """Store an upload and create its job. Both are on disk when this returns.

        With `dryRun`, the job waits for its start after a dry run.

        Raises `Unauthorized` if the website belongs to another workspace, `UnsupportedMedia` if the
        file's format differs from the request's, `TooLarge` if the file is too large, `QueueFull`
        if the workspace has too many uploads or unfinished imports, and `Unavailable` if a store
        does not respond.
        """
        reader = reader_of_request(query.format, media_type)
        mapping: ImportMapping | None = query.mapping
        if query.mapping_id is not None:
            saved = await to_thread.run_sync(
                self._mappings.of_import, sender.workspace_id, query.mapping_id
            )
            mapping = saved.mapping
        if mapping is not None:
            if reader.mapped is None:
                raise bad_parameter(_without_columns(reader))
            reader = reader.mapped(mapping)
        elif query.dry_run and reader.mapped is not None:  # The dry run guesses the mapping.
            reader = reader.mapped(_ANY_COLUMNS)
        website = await to_thread.run_sync(
            self._websites.owned_website, sender.workspace_id, query.website_id
        )
        await to_thread.run_sync(self._require_room_for_upload, sender, query.dry_run)
        now_ms = self._clock()
        import_id = ImportId(new_id("imp", now_ms))
        files = self._staged_files if query.dry_run else self._files
        worker = self.check_worker if query.dry_run else self.worker
        try:
            async with self._uploads.slot_async(sender.workspace_id):
                file = await files.save(
                    import_id,
                    reader.name,
                    require_format(chunks, reader),
                    self._settings.max_import_bytes,
                )
        except OSError as error:
            raise Unavailable(
                f"The file cannot be written to the data folder: {error.strerror or error}.",
                code="folder_unavailable",
            ) from error
        job = ImportJob(
            id=import_id,
            workspace_id=website.workspace_id,
            website_id=website.id,
            state=ImportState.CHECKING if query.dry_run else ImportState.QUEUED,
            format=reader.name,
            file_name=query.file_name,
            sha256=file.sha256,
            bytes_total=file.size,
            bytes_read=0,
            lines_read=0,
            accepted=0,
            duplicates=0,
            rejected=0,
            first_event_at_ms=None,
            last_event_at_ms=None,
            affected_from_ms=None,
            affected_to_ms=None,
            error=None,
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
            finished_at_ms=None,
            accepts_stored_events=KeyScope.MANAGE in sender.scopes,
            mapping=mapping,
            sent_by=_id_of(sender),
        )
        try:
            await to_thread.run_sync(self._add, job, sender)
        # The job may have been stored. If not, the worker removes the file.
        except StoreUnavailable:
            raise
        except Exception:  # After a cancellation, the thread may still store the job.
            files.remove(import_id)
            raise
        finally:
            worker.wake()
        return job

    def _require_room_for_upload(self, sender: Caller, is_staged: bool) -> None:
        with self._database.read() as db:
            if is_staged:
                self._require_few_staged(db, sender)
            else:
                _require_few_open(db, sender.workspace_id)

    def _require_few_staged(self, db: Connection, sender: Caller) -> None:
        """Require room for a file before its start. A key without the scope manage cannot take
        more than half of the places and of the size.
        """
        files = store.staged_files(db, sender.workspace_id)
        own = [file for file in files if file.sent_by == _id_of(sender)]
        may_use_all = KeyScope.MANAGE in sender.scopes
        who, upload_bytes = "This workspace has", self._settings.max_import_bytes
        reached = _STAGED_OF_WORKSPACE.reached(files, upload_bytes)
        if not may_use_all and (of_key := _STAGED_OF_KEY.reached(own, upload_bytes)):
            who, reached = "This key has sent", of_key
        if reached is None:
            return
        usable = files if may_use_all else own
        way_out = (
            f"Start or cancel one, such as {usable[0].import_id}."
            if usable
            else "Ask a member to start or cancel one, or wait: the oldest is removed at "
            f"{iso(files[0].expires_at_ms)}."
        )
        raise Conflict(
            f"{who} {reached} that nobody has started, the limit. {way_out}",
            code="too_many_dry_runs",
        )

    def _add(self, job: ImportJob, sender: Caller) -> None:
        with self._database.write() as db:
            if job.is_staged:  # Other uploads may have ended in the meantime.
                self._require_few_staged(db, sender)
            store.add(db, job)

    def find(self, actor: Caller, import_id: str) -> ImportJob:
        """Find an import.

        Raises `NotFound` if it does not exist or the actor may not see it yet, and `Forbidden` if
        the key is for another website.
        """
        with self._database.read() as db:
            return _seen_import(store.find(db, actor.workspace_id, import_id), actor)

    def page(self, workspace_id: WorkspaceId, query: RecordsQuery) -> Listing[ImportJob]:
        """List imports, newest first.

        Raises `Unauthorized` if the website belongs to another workspace.
        """
        if query.website_id is not None:
            self._websites.owned_website(workspace_id, query.website_id)
        with self._database.read() as db:
            return store.page(db, workspace_id, query.website_id, query.pagination)

    def rejects(self, actor: Caller, import_id: str, page: Page) -> Listing[Reject]:
        """List rejected lines in file order, each with all its faults."""
        job = self.find(actor, import_id)
        with self._database.read() as db:
            return store.rejects(db, job, page)

    def cancel(self, actor: Caller, import_id: str) -> ImportJob:
        """Stop an import. Stored events are kept. Cancelling again changes nothing.

        Raises `Conflict` if the import is finished, and `Forbidden` if it was started and the key
        lacks the scope manage.
        """
        with self._database.write() as db:
            job = _changed_import(db, actor, import_id)
            if job.state is ImportState.CANCELLED and job.sent_by == _id_of(actor):
                return job
            if not job.is_staged:
                require_scope(actor.scopes, (KeyScope.MANAGE,))
            if job.state is ImportState.CANCELLED:
                return job
            if not job.is_open and not job.is_staged:
                raise Conflict("The import is already finished.", code="import_finished")
            was_queued = job.state is ImportState.QUEUED
            now_ms = self._clock()
            job = replace(
                job, state=ImportState.CANCELLED, updated_at_ms=now_ms, finished_at_ms=now_ms
            )
            store.save(db, job)
            store.remove_summary(db, job.id)
            self._database.changes.announce(db, TOPIC)
            self._database.changes.announce(db, CHECKS_TOPIC)
        self.check_worker.wake()
        if was_queued:  # A worker removes a file that it is reading.
            self._files.remove(import_id)
        return job

    def summary(self, actor: Caller, import_id: str) -> ImportSummaryRecord:
        """Return what the dry run of an import shows.

        Raises `NotFound` if the import had no dry run or was cancelled before its start, and
        `Conflict` if the dry run has not ended.
        """
        job = self.find(actor, import_id)
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
        """Find what the dry run of an import showed; None if there was none or it has not ended."""
        with self._database.read() as db:
            summary = store.summary_of(db, job)
            saved = _saved_mapping(db, job)
        if summary is None:
            return None
        return ImportSummaryRecord.model_validate(summary).model_copy(
            update={"saved_mapping": saved}
        )

    def start(self, actor: Caller, import_id: str, revision: int | None = None) -> ImportJob:
        """Begin the import of a file after its dry run.

        revision: revision of the summary that the actor has read. Raises `Conflict` if the mapping
        has changed since, if the dry run has not ended, or if the import was started or has ended,
        and `QueueFull` if the workspace has too many unfinished imports.
        """
        with self._database.write() as db:
            job = _changed_import(db, actor, import_id)
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
            if job.mapping is not None and (gaps := job.mapping.gaps()):
                raise Invalid(gaps)
            _require_few_open(db, job.workspace_id)
            job = replace(
                job,
                state=ImportState.QUEUED,
                bytes_read=0,
                lines_read=0,
                updated_at_ms=self._clock(),
            )
            store.save(db, job)
            summary = ImportSummaryRecord.model_validate(store.summary_of(db, job))
            store.save_summary(db, job.id, summary.without_content().model_dump(mode="json"))
            self._database.changes.announce(db, CHECKS_TOPIC)
        self.check_worker.wake()
        return job

    def change_mapping(self, actor: Caller, import_id: str, mapping: CompleteMapping) -> ImportJob:
        """Change the mapping of a table before its import is started, and read the file again.

        Raises `Conflict` if the import was started or has ended, and `Invalid` if its format is
        not a table.
        """
        with self._database.write() as db:
            job = _changed_import(db, actor, import_id)
            if not job.is_staged:
                raise _already_started(job)
            reader = reader_named(job.format)
            if reader.mapped is None:
                raise Invalid([_without_columns(reader)])
            job = replace(
                job,
                state=ImportState.CHECKING,
                mapping=mapping,
                revision=job.revision + 1,
                bytes_read=0,
                lines_read=0,
                updated_at_ms=self._clock(),
            )
            store.save(db, job)
            store.remove_summary(db, job.id)
            self._database.changes.announce(db, CHECKS_TOPIC)
        self.check_worker.wake()
        return job

    def dismiss_gap(self, current_user: CurrentUser, import_id: str) -> ImportJob:
        """Mark an import's gap as harmless. Coverage then counts as complete, with a note.

        Raises `Forbidden` if the user is not an owner, and `Conflict` if there is no gap.
        """
        with self._database.write() as db:
            job = store.find(db, current_user.workspace.id, import_id)
            if job is None:
                raise _import_not_found()
            require_owner(db, current_user)
            if job.gap_dismissed_at_ms is not None:
                return job
            if job.is_open:
                raise Conflict(
                    "The import is not finished; its gap may still close.",
                    code="import_not_finished",
                )
            if not job.has_gap:
                raise Conflict("The import left no gap.", code="no_gap")
            now_ms = self._clock()
            job = replace(
                job,
                gap_dismissed_at_ms=now_ms,
                gap_dismissed_by=current_user.user.id,
                updated_at_ms=now_ms,
            )
            store.save(db, job)
        return job

    def spans(
        self, workspace_id: WorkspaceId, website_ids: Collection[WebsiteId]
    ) -> list[ImportSpan]:
        """List the periods that imports changed, oldest first, for the coverage of reports."""
        with self._database.read() as db:
            return store.spans(db, workspace_id, website_ids)


def _without_columns(reader: Reader) -> Fault:
    formats = listed([each.name for each in READERS if each.mapped is not None], "or")
    message = (
        f"The format {reader.name} has fields of its own. Leave the mapping out, or send the file "
        f"with format={formats}."
    )
    return Fault("mapping", "not_for_format", message)


def _id_of(caller: Caller) -> str | None:
    return caller.key_id or caller.user_id


def _saved_mapping(db: Connection, job: ImportJob) -> UsedMappingRecord | None:
    """Find a saved mapping that equals the one of the import."""
    if job.mapping is None:
        return None
    columns = [each.column for each in job.mapping.columns]
    return next(
        (
            UsedMappingRecord(id=saved.id, name=saved.name)
            for saved in mappings_of(db, job.workspace_id, columns)
            if saved.mapping.model_dump() == job.mapping.model_dump()
        ),
        None,
    )


def _seen_import(
    job: ImportJob | None,
    actor: Caller,
    scopes: Collection[KeyScope] = (KeyScope.READ, KeyScope.MANAGE),
) -> ImportJob:
    """Return the import if the actor may see it.

    Before its start, a key without any of these scopes sees only the files that it sent itself.
    """
    if job is None:
        raise _import_not_found()
    if job.is_staged and actor.scopes.isdisjoint(scopes) and job.sent_by != _id_of(actor):
        raise _import_not_found()
    require_website_of_key(actor, job.website_id)
    return job


def _changed_import(db: Connection, actor: Caller, import_id: str) -> ImportJob:
    """Lock the import and return it if the actor may change it."""
    job = store.find(db, actor.workspace_id, import_id, lock=True)
    return _seen_import(job, actor, (KeyScope.MANAGE,))


def _require_few_open(db: Connection, workspace_id: WorkspaceId) -> None:
    count = store.count_open_jobs(db, workspace_id)
    if count >= _MAX_OPEN_JOBS:
        raise QueueFull(
            f"This workspace has {count} unfinished imports, the limit; wait or cancel one.",
            code="too_many_imports",
            retry_after_s=30,
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


def _import_not_found() -> NotFound:
    return NotFound("There is no such import in this workspace.")


def rejected_texts(
    db: Connection, website_ids: Collection[str], sent_ids: Collection[str]
) -> Iterator[dict[str, Any]]:
    """Find excerpts of rejected lines that contain one of the IDs, for a person's data export."""
    for excerpt in store.search_excerpts(db, website_ids, store.naming(sent_ids)).excerpts:
        yield {"importId": excerpt.import_id, "line": excerpt.line, "text": excerpt.text}
