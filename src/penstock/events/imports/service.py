"""Use cases for imports. Synchronous methods block, so call them from a worker thread."""

from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, suppress
from time import sleep

from anyio import to_thread
from sqlalchemy import Connection

from penstock.accounts.members.service import require_owner
from penstock.accounts.model import Caller, CurrentUser
from penstock.accounts.websites.service import WebsiteService
from penstock.base.errors import Conflict, StoreUnavailable, Unavailable
from penstock.base.fair_queue import FairQueue, QueueLimits
from penstock.base.gaps import Gap
from penstock.base.ids import ImportId, WebsiteId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.core import Core
from penstock.disk.service import DiskService
from penstock.events.imports import store
from penstock.events.imports.access import (
    import_not_found,
    require_few_open,
    seen_import,
    sender_of,
)
from penstock.events.imports.content import require_format
from penstock.events.imports.dry_runs.service import DryRunService
from penstock.events.imports.dry_runs.worker import TOPIC as DRY_RUNS_TOPIC
from penstock.events.imports.dry_runs.worker import DryRunWorker
from penstock.events.imports.files import ImportFiles
from penstock.events.imports.formats.schema import ImportMapping, OtherColumns
from penstock.events.imports.formats.table import mapping_fault, reader_of_request, timezone_fault
from penstock.events.imports.mappings.service import ImportMappingService
from penstock.events.imports.model import (
    UNFINISHED,
    ImportJob,
    ImportState,
    Reject,
    UnfinishedImport,
)
from penstock.events.imports.schema import ImportQuery
from penstock.events.imports.worker import TOPIC, ImportWorker
from penstock.events.intake import Intake
from penstock.http.bodies import bad_parameter
from penstock.http.schema import RecordsQuery
from penstock.http.scopes import KeyScope, require_scope
from penstock.metadb.database import Database
from penstock.metadb.person import Person, StoredRecord

_ANY_COLUMNS = ImportMapping(columns=[], otherColumns=OtherColumns.IGNORED)
_CLOSING_MS, _RETRY_S = 5_000, 0.1
"""Time for which a cancellation on a full disk waits for the worker to close the file, in
milliseconds, and the pause between its attempts, in seconds.
"""
_UPLOADS = QueueLimits(slots=32, slots_per_key=4, waiting=0, waiting_per_key=0)
"""Limits for uploads. There is no queue, because an upload may take hours."""


class ImportService:
    """Receives files. A worker reads each workspace's files, oldest first."""

    def __init__(
        self,
        core: Core,
        websites: WebsiteService,
        mappings: ImportMappingService,
        intake: Intake,
        disk: DiskService,
    ) -> None:
        self._database, self._clock, self._settings = core.database, core.clock, core.settings
        self._websites, self._mappings, self._disk = websites, mappings, disk
        self._uploads = FairQueue("uploads", _UPLOADS, code="too_many_imports", retry_after_s=30)
        folder = core.settings.data
        self._reader = ImportWorker(
            core, websites, ImportFiles(folder / "imports", core.clock), intake
        )
        self._files, self.worker = self._reader.files, self._reader.worker
        self.dry_runs = DryRunService(
            core,
            DryRunWorker(
                core,
                websites,
                ImportFiles(folder / "staged", core.clock),
                self._files,
                on_started=self.worker.wake,
                is_busy=lambda: intake.waiting() > 0,
            ),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read files during the context, including interrupted imports. Needs a running intake."""
        async with self._reader.running(), self.dry_runs.running():
            yield

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
        if the workspace has too many uploads or unfinished imports, `OutOfDisk` if the disk or the
        workspace's budget has no room, and `Unavailable` if a store does not respond.
        """
        reader = reader_of_request(query.format, media_type)
        if query.timezone is not None and (fault := timezone_fault(reader)) is not None:
            raise bad_parameter(fault)
        mapping: ImportMapping | None = query.mapping
        if query.mapping_id is not None:
            saved = await to_thread.run_sync(
                self._mappings.for_request, sender.workspace_id, query.mapping_id
            )
            mapping = saved.mapping
        if mapping is not None:
            if reader.mapped is None:
                raise bad_parameter(mapping_fault(reader))
            reader = reader.mapped(mapping)
        elif query.dry_run and reader.mapped is not None:  # The dry run guesses the mapping.
            reader = reader.mapped(_ANY_COLUMNS)
        website = await to_thread.run_sync(
            self._websites.owned_website, sender.workspace_id, query.website_id
        )
        await to_thread.run_sync(self._require_room_for_upload, sender, query.dry_run)
        now_ms = self._clock()
        import_id = ImportId(new_id("imp", now_ms))
        files = self.dry_runs.files if query.dry_run else self._files
        worker = self.dry_runs.worker if query.dry_run else self.worker
        try:
            async with self._uploads.slot_async(sender.workspace_id):
                with self._disk.upload(sender.workspace_id) as take_room:
                    file = await files.save(
                        import_id,
                        reader.name,
                        require_format(chunks, reader),
                        self._settings.max_import_bytes,
                        take_room,
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
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
            accepts_stored_events=KeyScope.MANAGE in sender.scopes,
            mapping=mapping,
            sent_by=sender_of(sender),
            timezone=query.timezone,
            is_undoable=True,
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
            if not is_staged:
                require_few_open(db, sender.workspace_id)
            self._require_room(db, sender, is_staged, new_bytes=1)

    def _require_room(
        self, db: Connection, sender: Caller, is_staged: bool, new_bytes: int
    ) -> None:
        if is_staged:
            self.dry_runs.require_room(db, sender)
        may_use_all = KeyScope.MANAGE in sender.scopes
        sender_id = None if may_use_all else sender_of(sender)
        self._disk.require_room(db, sender.workspace_id, new_bytes, sender_id)

    def _add(self, job: ImportJob, sender: Caller) -> None:
        with self._database.write() as db:
            # Other uploads may have ended in the meantime.
            self._require_room(db, sender, job.is_staged, job.bytes_total)
            store.add(db, job)

    def find(self, actor: Caller, import_id: str) -> ImportJob:
        """Find an import.

        Raises `NotFound` if it does not exist or the actor may not see it yet, and `Forbidden` if
        the key is for another website.
        """
        with self._database.read() as db:
            return seen_import(store.find(db, actor.workspace_id, import_id), actor)

    def page(self, workspace_id: WorkspaceId, query: RecordsQuery) -> Listing[ImportJob]:
        """List imports, newest first.

        Raises `Unauthorized` if the website belongs to another workspace.
        """
        website_id = self._websites.selected_id(workspace_id, query.website_id)
        with self._database.read() as db:
            return store.page(db, workspace_id, website_id, query.pagination)

    def rejects(self, actor: Caller, import_id: str, page: Page) -> Listing[Reject]:
        """List rejected lines in file order, each with all its faults."""
        job = self.find(actor, import_id)
        with self._database.read() as db:
            return store.rejects(db, job, page)

    def cancel(self, actor: Caller, import_id: str) -> ImportJob:
        """Stop an import, and remove its file. Stored events are kept. Cancelling again changes
        nothing.

        The file goes first: a full disk has room for the record only then. Raises `Conflict` if the
        import is finished, and `Forbidden` if somebody else sent the file and the key lacks the
        scope manage.
        """
        with self._database.read() as db:
            job = seen_import(
                store.find(db, actor.workspace_id, import_id), actor, (KeyScope.MANAGE,)
            )
        if job.sent_by != sender_of(actor):
            require_scope(actor.scopes, (KeyScope.MANAGE,))
        if job.state is ImportState.CANCELLED:
            return job
        if job.is_open or job.is_staged:
            self._remove_file(import_id)
        return self._end_when_closed(job)

    def _remove_file(self, import_id: str) -> None:
        """Remove the file of an import. Its worker then closes it."""
        for files in (self.dry_runs.files, self._files):
            files.remove(import_id)
        self.worker.wake()
        self.dry_runs.worker.wake()

    def _end_when_closed(self, job: ImportJob) -> ImportJob:
        """Record the cancellation. A full disk has no room until the worker has closed the file."""
        until_ms = self._clock.elapsed_ms() + _CLOSING_MS
        while self._disk.space.is_full() and self._clock.elapsed_ms() < until_ms:
            with suppress(StoreUnavailable):
                return self._end_cancelled(job)
            sleep(_RETRY_S)
        return self._end_cancelled(job)

    def _end_cancelled(self, job: ImportJob) -> ImportJob:
        with self._database.write() as db:
            is_ended = _cancel(self._database, db, job, self._clock())
            job = store.find(db, job.workspace_id, job.id) or job
        if not is_ended and job.state is not ImportState.CANCELLED:
            raise Conflict("The import is already finished.", code="import_finished")
        self._remove_file(job.id)  # A start may have moved it in the meantime.
        return job

    def dismiss_gap(self, current_user: CurrentUser, import_id: str) -> ImportJob:
        """Mark an import's gap as harmless. Coverage then counts as complete, with a note.

        Raises `Forbidden` if the user is not an owner, and `Conflict` if there is no gap.
        """
        with self._database.write() as db:
            job = store.find(db, current_user.workspace.id, import_id)
            if job is None:
                raise import_not_found()
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
            now_ms, user_id = self._clock(), current_user.user.id
            return store.change(
                db, job, now_ms, gap_dismissed_at_ms=now_ms, gap_dismissed_by=user_id
            )

    def gaps(self, workspace_id: WorkspaceId, website_ids: Collection[WebsiteId]) -> list[Gap]:
        """List the gaps that imports left, oldest first, for the coverage of reports."""
        with self._database.read() as db:
            return store.gaps(db, workspace_id, website_ids)


def rejected_texts(db: Connection, person: Person) -> Iterator[StoredRecord]:
    """Find excerpts of rejected lines that contain one of a person's IDs."""
    named = store.search_excerpts(db, person.website_ids, store.naming(person.sent_ids))
    for each in named.excerpts:
        line = {"importId": each.import_id, "line": each.line, "text": each.text}
        yield "rejectedLine", line


def unfinished_imports(database: Database) -> list[UnfinishedImport]:
    """Return the unfinished imports of every workspace, oldest first, for the operator."""
    with database.read() as db:
        return store.unfinished_imports(db)


def operator_cancel(database: Database, import_id: str, now_ms: int) -> bool:
    """Cancel an import for the operator. Returns False if no unfinished import has this ID.

    It needs no running service. The next start removes the file.
    """
    with database.write() as db:
        matches = [each for each in store.unfinished_imports(db) if each.id == import_id]
        for each in matches:
            _cancel(database, db, each, now_ms)
    return bool(matches)


def _cancel(database: Database, db: Connection, unfinished: ImportJob, now_ms: int) -> bool:
    """Cancel an import, and wake the workers of all nodes. Returns False if it is finished."""
    is_ended = store.end(db, unfinished, UNFINISHED, ImportState.CANCELLED, now_ms)
    for topic in (TOPIC, DRY_RUNS_TOPIC):
        database.changes.announce(db, topic)
    return is_ended
