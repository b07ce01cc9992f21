"""Use cases of imports. Methods block, but for `receive` and what runs the jobs: call them from a worker thread."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from anyio import to_thread

from penstock.accounts.service import AccountService
from penstock.base.clock import Clock
from penstock.base.errors import NotFound, Unavailable
from penstock.base.ids import ImportId, WebsiteId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.events.imports import store
from penstock.events.imports.files import ImportFiles
from penstock.events.imports.model import ImportJob, ImportSpan, ImportState, Reject
from penstock.events.imports.schema import ImportQuery
from penstock.events.imports.worker import ImportWorker
from penstock.events.intake import Intake
from penstock.http.schema import RecordsQuery
from penstock.metadb.database import Database
from penstock.settings import Settings


class ImportService:
    """Takes files in and has them read, one at a time, oldest first."""

    def __init__(self, database: Database, accounts: AccountService, intake: Intake, settings: Settings, clock: Clock) -> None:
        self._database, self._accounts, self._settings, self._clock = database, accounts, settings, clock
        self._files = ImportFiles(settings.data / "imports")
        self._worker = ImportWorker(database, accounts, intake, self._files, settings, clock)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the service runs, jobs are read; those that a stop or a crash interrupted go on where they were. Needs a running intake."""
        await to_thread.run_sync(self._tidy)
        reading = asyncio.create_task(self._worker.read_until_stopped(), name="imports")
        try:
            yield
        finally:
            self._worker.stop()
            await reading

    def _tidy(self) -> None:
        """Remove what a crash left: files that did not arrive whole, files that no job reads."""
        self._files.remove_unfinished()
        with self._database.read() as db:
            wanted = {str(job.id) for job in store.open_jobs(db)}
        for import_id in self._files.present() - wanted:
            self._files.remove(import_id)

    async def receive(self, workspace_id: WorkspaceId, query: ImportQuery, chunks: AsyncIterator[bytes]) -> ImportJob:
        """Keep a file as it arrives; the job that reads it. The file and the job are on disk when this returns.

        `Unauthorized` when the website is not of the workspace, `Unavailable`, `TooLarge`.
        """
        website = await to_thread.run_sync(self._accounts.owned_website, workspace_id, query.website_id)
        now_ms = self._clock()
        import_id = ImportId(new_id("imp", now_ms))
        try:
            kept = await self._files.keep(import_id, chunks, self._settings.max_import_bytes)
        except OSError as error:
            raise Unavailable(f"The data folder cannot take the file: {error.strerror or error}.", code="folder_unavailable") from error
        job = ImportJob(
            id=import_id,
            workspace_id=website.workspace_id,
            website_id=website.id,
            state=ImportState.QUEUED,
            file_name=query.file_name,
            sha256=kept.sha256,
            bytes_total=kept.size,
            bytes_read=0,
            lines_read=0,
            accepted=0,
            duplicates=0,
            rejected=0,
            first_event_at_ms=None,
            last_event_at_ms=None,
            reach_from_ms=None,
            reach_to_ms=None,
            error=None,
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
            finished_at_ms=None,
        )
        await to_thread.run_sync(self._add, job)
        self._worker.wake()
        return job

    def _add(self, job: ImportJob) -> None:
        with self._database.write() as db:
            store.add(db, job)

    def find(self, workspace_id: WorkspaceId, import_id: str) -> ImportJob:
        with self._database.read() as db:
            job = store.find(db, workspace_id, import_id)
        if job is None:
            raise NotFound("There is no such import in this workspace.")
        return job

    def page(self, workspace_id: WorkspaceId, query: RecordsQuery) -> Listing[ImportJob]:
        """Newest first. `Unauthorized` when the website that is asked for is not of the workspace."""
        if query.website_id is not None:
            self._accounts.owned_website(workspace_id, query.website_id)
        with self._database.read() as db:
            return store.page(db, workspace_id, query.website_id, query.asked)

    def rejects(self, workspace_id: WorkspaceId, import_id: str, page: Page) -> Listing[Reject]:
        """Rejected lines in their order, with every reason."""
        job = self.find(workspace_id, import_id)
        with self._database.read() as db:
            return store.rejects(db, job, page)

    def spans(self, workspace_id: WorkspaceId, website_ids: Collection[WebsiteId]) -> list[ImportSpan]:
        """What imports have touched of these websites' history, oldest first: part of what a report's coverage tells."""
        with self._database.read() as db:
            return store.spans(db, workspace_id, website_ids)
