"""Reads kept files through the intake, a batch at a time. Progress is saved after each batch, so a crash repeats one batch at most;
the repeat changes nothing, for every line has a dedupe key."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from threading import Event
from typing import NamedTuple

import structlog
from anyio import to_thread
from sqlalchemy.exc import DBAPIError

from penstock.accounts.model import Website
from penstock.accounts.service import AccountService
from penstock.base.clock import Clock
from penstock.base.errors import Invalid, Unavailable
from penstock.events.fields import Bounds
from penstock.events.imports import store
from penstock.events.imports.entries import Occurrences, read_entry, stated_ms, too_long
from penstock.events.imports.files import ImportFiles, Line, Unreadable, lines
from penstock.events.imports.model import ImportJob, ImportState, Reject
from penstock.events.intake import Intake
from penstock.events.model import NewEvent, Receipt, Status
from penstock.metadb.database import Database
from penstock.settings import Settings

log = structlog.get_logger()

BATCH_LINES = 500
_RETRY_S = 2.0


class Batch(NamedTuple):
    """What some lines came to. lines_read, bytes_read: of the file, after them."""

    events: list[NewEvent]
    rejects: list[Reject]
    lines_read: int
    bytes_read: int


class _Stopped(Exception):
    """The service stops; the job goes on after the next start."""


class ImportWorker:
    """One job at a time, oldest first; on the event loop, with what blocks in worker threads.

    A node reads the files that it took in, so that several nodes on one metadata DB never share a job.
    """

    def __init__(
        self, database: Database, accounts: AccountService, intake: Intake, files: ImportFiles, settings: Settings, clock: Clock
    ) -> None:
        self._database, self._accounts, self._intake = database, accounts, intake
        self._files, self._settings, self._clock = files, settings, clock
        self._arrived = asyncio.Event()
        self._stopping = Event()

    def wake(self) -> None:
        """A job has come. Call it on the event loop."""
        self._arrived.set()

    def stop(self) -> None:
        """Finish the batch at hand and no more. Call it on the event loop."""
        self._stopping.set()
        self._arrived.set()

    async def read_until_stopped(self) -> None:
        while not self._stopping.is_set():
            self._arrived.clear()
            try:
                for job in await to_thread.run_sync(self._waiting):
                    await self._read(job)
                await self._arrived.wait()
            except _Stopped:
                return
            except DBAPIError as error:
                log.warning("import_waits", reason=type(error).__name__)
                await asyncio.sleep(_RETRY_S)

    def _waiting(self) -> list[ImportJob]:
        """Jobs whose file is here."""
        here = self._files.present()
        with self._database.read() as db:
            return [job for job in store.open_jobs(db) if job.id in here]

    async def _read(self, job: ImportJob) -> None:
        """One job to its end. Raises what the metadata DB raises: it goes on later from what was saved."""
        website = await to_thread.run_sync(self._accounts.find_website, job.website_id)
        try:
            if website is None:
                raise Unreadable("The website was deleted.")
            job = await self._saved(replace(job, state=ImportState.RUNNING))
            batches = self._batches(job, website)
            while (batch := await to_thread.run_sync(next, batches, None)) is not None:
                job = await self._saved(advanced(job, batch, await self._stored(batch.events)), batch.rejects)
            job = replace(job, state=ImportState.DONE, bytes_read=job.bytes_total)
        except Unreadable as error:
            job = replace(job, state=ImportState.FAILED, error=str(error))
        except (_Stopped, DBAPIError):
            raise
        except Exception as error:
            log.error("import_failed", import_id=job.id, exc_info=error)
            job = replace(job, state=ImportState.FAILED, error="Something went wrong on our side; the log has the details.")
        await self._saved(replace(job, finished_at_ms=self._clock()))
        await to_thread.run_sync(self._files.remove, job.id)

    async def _saved(self, job: ImportJob, rejects: list[Reject] | None = None) -> ImportJob:
        now = replace(job, updated_at_ms=self._clock())

        def save() -> None:
            with self._database.write() as db:
                store.save(db, now, rejects or ())

        await to_thread.run_sync(save)
        return now

    def _batches(self, job: ImportJob, website: Website) -> Iterator[Batch]:
        """The rest of the file. Lines that were read before are read again, but only to count equal ones."""
        settings, occurrences = self._settings, Occurrences()
        source = lines(
            self._files.path(job.id), max_line_bytes=settings.max_event_bytes, max_inflated_bytes=settings.max_import_inflated_bytes
        )
        before = islice(source, job.lines_read)
        while some := list(islice(before, BATCH_LINES)):
            self._batch(some, website, occurrences)
        while some := list(islice(source, BATCH_LINES)):
            yield self._batch(some, website, occurrences)

    def _batch(self, some: list[Line], website: Website, occurrences: Occurrences) -> Batch:
        if self._stopping.is_set():
            raise _Stopped
        batch = Batch([], [], some[-1].number, some[-1].bytes_read)
        bounds = Bounds(self._settings, self._clock())
        for number, text, _ in some:
            if text is None:
                batch.rejects.append(Reject(number, [too_long(bounds)]))
            elif text.strip():
                try:
                    batch.events.append(read_entry(text, website, occurrences, bounds))
                except Invalid as error:
                    batch.rejects.append(Reject(number, error.faults, stated_ms(text)))
        return batch

    async def _stored(self, events: list[NewEvent]) -> list[Receipt]:
        """Stored by the intake, however long it takes: live events may fill it, the store may be away."""
        while events:
            try:
                return await self._intake.submit(events)
            except Unavailable as error:
                if self._stopping.is_set():
                    raise _Stopped from None
                log.warning("import_waits", reason=error.code)
                await asyncio.sleep(_RETRY_S)
        return []


def advanced(job: ImportJob, batch: Batch, receipts: list[Receipt]) -> ImportJob:
    """The job after a batch. receipts: of its events."""
    times_ms = [event.occurred_at_ms for event in batch.events]
    reached_ms = times_ms + [at_ms for reject in batch.rejects for at_ms in _may_have_occurred(reject, job)]
    repeated = sum(receipt.status is Status.DUPLICATE for receipt in receipts)
    first_event_at_ms, last_event_at_ms = _widened(job.first_event_at_ms, job.last_event_at_ms, times_ms)
    reach_from_ms, reach_to_ms = _widened(job.reach_from_ms, job.reach_to_ms, reached_ms)
    return replace(
        job,
        lines_read=batch.lines_read,
        bytes_read=batch.bytes_read,
        accepted=job.accepted + len(receipts) - repeated,
        duplicates=job.duplicates + repeated,
        rejected=job.rejected + len(batch.rejects),
        first_event_at_ms=first_event_at_ms,
        last_event_at_ms=last_event_at_ms,
        reach_from_ms=reach_from_ms,
        reach_to_ms=reach_to_ms,
    )


def _widened(first_ms: int | None, last_ms: int | None, times_ms: list[int]) -> tuple[int | None, int | None]:
    """The first and last of a span and of further times; None where there is nothing."""
    known = [at_ms for at_ms in (first_ms, last_ms, *times_ms) if at_ms is not None]
    return min(known, default=None), max(known, default=None)


def _may_have_occurred(reject: Reject, job: ImportJob) -> list[int]:
    """When what a rejected line tells of happened; at any time before the import where the line does not say."""
    return [0, job.created_at_ms] if reject.stated_ms is None else [reject.stated_ms]
