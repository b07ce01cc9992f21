"""Reads stored files through the intake, one batch at a time.

Progress is saved after each batch, so a crash repeats one batch at most. The repeat changes
nothing, because every line has a dedupe key.

If the process dies while it reads an import, the next start reads the lines of that batch one by
one. If it dies again before it stores a line, the import fails.
"""

from collections import OrderedDict
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Protocol

from penstock.accounts.model import Website
from penstock.accounts.websites.service import WebsiteService
from penstock.base.attempts import MAX_DEATHS, Attempts
from penstock.base.clock import Clock
from penstock.base.errors import Invalid, StoreUnavailable, Unavailable
from penstock.base.event_limits import MAX_EVENT_BYTES
from penstock.base.ids import WorkspaceId
from penstock.base.work_budget import WorkBudget
from penstock.base.worker import Worker, WorkerStopped
from penstock.events import store as events_store
from penstock.events.fields import EventValidationContext
from penstock.events.imports import store
from penstock.events.imports.batches import Batch, advance, rejected_row, without_rejected
from penstock.events.imports.bugs import log_bug
from penstock.events.imports.entries import (
    Occurrences,
    read_line,
)
from penstock.events.imports.files import ImportFiles
from penstock.events.imports.formats.reader import ReaderLimits, Row, UnreadableFile
from penstock.events.imports.formats.table import reader_named
from penstock.events.imports.model import (
    ImportJob,
    ImportState,
    Reject,
    StartedImport,
    completed,
    interrupted,
    stopped,
)
from penstock.events.intake import Intake
from penstock.events.model import EventCounts, NewEvent
from penstock.events.transaction import Outcome
from penstock.identity.model import Claim
from penstock.metadb.database import Database
from penstock.settings import Settings

TOPIC = "imports"
BATCH_LINES = 500
"""Maximum number of lines in one commit while other senders are waiting for a commit."""
LARGE_BATCH_LINES = 2_000
"""Maximum number of lines in one commit while nobody else is sending. Larger commits save disk
syncs.
"""
_BATCH_BYTES = 8 * 1024 * 1024
_BATCH_VALUES = 250_000
"""Limits of the lines in one commit, as JSON text and as JSON values. A value needs about 100
bytes of memory, so a batch needs some tens of megabytes at most.
"""
_SLICE_S = 0.5
"""Time limit of a turn, in seconds. The turn starts no further batch after this time, and a batch
ends after the row that it reads then.
"""
_INTERNAL_ERROR = (
    "Penstock had an internal error; the service log has the details. Once it is fixed, import the "
    "file again; stored events are recognised as duplicates."
)
_MANY_WAITING = 16
"""Number of waiting events from which an import slows down."""
_PAUSE_FACTOR = 2.0
"""Length of the pause after a step while many events wait, relative to the time of the step. With
it, single posts keep 0.7 of their rate.
"""
_MAX_RUNNING = 64
"""Maximum number of imports that run at once. Each has an open file and a temporary database."""
_OVERLOADED_S = 2.0
_LOW_DISK_S = 5.0
"""Pause while the disk has too little free space, in seconds."""


class _ReadItems(Protocol):
    """Reads a line of one import, as `read_line` does."""

    def __call__(
        self, text: bytes, *, context: EventValidationContext
    ) -> list[NewEvent | Claim]: ...


@dataclass(slots=True)
class _RunningImport:
    """A job in progress, and the results of its current batch.

    After an error, results that are already set are not computed again.
    is_careful: whether the process died while it read the next lines. batches: the batches that
    follow; None stands for lines that were already read before a restart.
    """

    job: ImportJob
    is_careful: bool = False
    batches: Generator[Batch | None] | None = None
    batch: Batch | None = None
    outcomes: Sequence[Outcome] | None = None
    finished: ImportJob | None = None

    def close(self) -> None:
        """Close the file, so that the disk has its space once the file is removed."""
        if self.batches is not None:
            self.batches.close()
            self.batches = None


class _FileRemoved(Exception):
    """Someone has cancelled the import and so removed its file."""


class ImportWorker:
    """Runs one job per workspace at a time, oldest first. Each step runs one job for a short time.

    Workspaces take turns, so that a long import does not delay others. A node reads only files that
    it received, so that several nodes with one metadata DB never share a job. If a store is down or
    the disk has too little free space, a job waits instead of failing.
    """

    def __init__(
        self,
        database: Database,
        websites: WebsiteService,
        intake: Intake,
        files: ImportFiles,
        settings: Settings,
        clock: Clock,
        attempts: Attempts,
    ) -> None:
        self._database, self._websites, self._intake = database, websites, intake
        self._files, self._settings, self._clock = files, settings, clock
        self._attempts = attempts
        self._running_imports: OrderedDict[WorkspaceId, _RunningImport] = OrderedDict()
        """Running imports by workspace. The first import continues next."""
        self.worker = Worker("imports", self._step, clock, retry_on_wake=True)
        database.changes.subscribe(TOPIC, self.worker.wake)

    def _step(self) -> float | None:
        """Continue one import. Returns the seconds until the next step; None if none is waiting."""
        self._begin_waiting_jobs()
        if not self._running_imports:
            return self._files.abandoned_after_s()
        if self._settings.disk_space.is_low():
            return _LOW_DISK_S
        workspace_id, running = next(iter(self._running_imports.items()))
        self._running_imports.move_to_end(workspace_id)
        began_s = monotonic()
        try:
            with self._attempts.attempt(running.job.id):
                self._read_slice(running)
        except Unavailable as error:
            if error.code == "overloaded":  # Live events have priority.
                return _OVERLOADED_S
            raise
        except _FileRemoved:
            self._running_imports.pop(workspace_id).close()
            return 0.0
        if running.finished is not None:
            self._save(replace(running.finished, finished_at_ms=self._clock()))
            self._files.remove(running.job.id)
            self._attempts.forget(running.job.id)
            self._running_imports.pop(workspace_id).close()
        return (monotonic() - began_s) * _PAUSE_FACTOR if self._many_wait() else 0.0

    def _many_wait(self) -> bool:
        """Whether other senders wait for a commit of many events. They have priority."""
        return self._intake.waiting() >= _MANY_WAITING

    def _begin_waiting_jobs(self) -> None:
        """Start the oldest job of each workspace without a running job.

        Only jobs whose file is on this node start. Files of cancelled jobs are removed, and removed
        files are closed, so that the disk has their space.
        """
        present = self._files.present()
        for workspace_id, running in list(self._running_imports.items()):
            if running.job.id not in present:
                self._running_imports.pop(workspace_id).close()
        running_ids = {str(running.job.id) for running in self._running_imports.values()}
        stored_files = present - running_ids
        if not stored_files:
            return
        with self._database.read() as db:
            waiting = [each for each in store.started_imports(db) if each.id in stored_files]
            cancelled = store.finished_among(db, stored_files)
        for import_id in cancelled:
            self._files.remove(import_id)
            self._attempts.forget(import_id)
        known = {*cancelled, *(str(each.id) for each in waiting)}
        self._files.remove_abandoned(stored_files - known)
        for each in waiting:
            is_free = each.workspace_id not in self._running_imports
            if is_free and len(self._running_imports) < _MAX_RUNNING:
                self._begin(each)

    def _begin(self, started: StartedImport) -> None:
        """Add an import to the running ones. It fails if its job cannot be read."""
        try:
            with self._database.read() as db:
                job = store.find(db, started.workspace_id, started.id)
        except Unavailable:
            raise
        except Exception as error:  # This is a bug. Other imports must not wait for it.
            log_bug("import_failed", started.id, error)
            with self._database.write() as db:
                store.fail_started(db, started, _INTERNAL_ERROR, self._clock())
            return
        if job is not None:
            deaths = self._attempts.deaths(job.id)
            running = _RunningImport(job, is_careful=deaths > 0)
            if deaths >= MAX_DEATHS:
                running.finished = interrupted(job)
            self._running_imports[job.workspace_id] = running

    def _read_slice(self, running: _RunningImport) -> None:
        """Store batches until the time is up, many events wait, or the job is finished.

        Raises `Unavailable` if the events cannot be stored now.
        """
        until_s = monotonic() + _SLICE_S
        while running.finished is None:
            try:
                if not self._store_batch(running):
                    running.finished = completed(running.job)
                elif running.job.rejected >= self._settings.limits.max_import_rejects:
                    running.finished = stopped(running.job)
            except UnreadableFile as error:
                running.finished = replace(running.job, state=ImportState.FAILED, error=str(error))
            if running.job.state is ImportState.CANCELLED:
                running.finished = running.job
            if monotonic() >= until_s or self._many_wait():
                return

    def _store_batch(self, running: _RunningImport) -> bool:
        """Store the next batch and the job's progress.

        Returns False at the end of the file or if the job was cancelled. Raises `UnreadableFile` if
        the import cannot continue, and `Unavailable` if it must be tried again later.
        """
        if running.batches is None:
            website = self._websites.find_website(running.job.website_id)
            if website is None:
                raise UnreadableFile("The website was deleted.")
            running.job = self._save(replace(running.job, state=ImportState.RUNNING))
            if not running.job.is_open:
                return False
            running.batches = self._batches(running, website)
        try:
            if running.batch is None:
                try:
                    running.batch = next(running.batches)
                except StopIteration:
                    return False
                if running.batch is None:
                    return True
            if running.outcomes is None:
                items = running.batch.items
                running.outcomes = self._intake.submit_from_thread(items) if items else []
        except (UnreadableFile, Unavailable, WorkerStopped):
            raise
        except Exception as error:
            if running.job.id not in self._files.present():
                raise _FileRemoved from None
            if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
                # The disk is full, or no file descriptor is free. Try the file again later.
                running.close()
                running.batch = None
                raise StoreUnavailable(reason=str(error)) from error
            # This is a bug. Other imports must not wait for it.
            log_bug("import_failed", running.job.id, error)
            raise UnreadableFile(_INTERNAL_ERROR) from error
        # `running` keeps the batch and its outcomes until they are saved, because this step is
        # repeated after an error.
        batch, outcomes = without_rejected(running.batch, running.outcomes)
        running.job = self._save(advance(running.job, batch, outcomes), batch.rejects)
        running.batch = running.outcomes = None
        if running.is_careful:
            self._attempts.note_progress(running.job.id)
        return True

    def _save(self, job: ImportJob, rejects: list[Reject] | None = None) -> ImportJob:
        """Save a job and return it. If someone has cancelled the job, returns it as cancelled."""
        job = replace(job, updated_at_ms=self._clock())
        with self._database.write() as db:
            stored = store.find(db, job.workspace_id, job.id, lock=True)
            if stored is not None and stored.state is ImportState.CANCELLED:
                job = replace(job, state=stored.state, finished_at_ms=stored.finished_at_ms)
            store.save(db, job, rejects or ())
            if rejects:
                refused = EventCounts(received=len(rejects), refused=len(rejects))
                events_store.add_counts(db, {job.website_id: refused})
        return job

    def _batches(self, running: _RunningImport, website: Website) -> Generator[Batch | None]:
        """Yield the rest of the file in batches. Earlier lines are read only to count repeats."""
        job, limits, occurrences = running.job, self._settings.limits, Occurrences()
        last_line = job.lines_read + LARGE_BATCH_LINES  # The lines of the batch before the death.
        source = reader_named(job.format, job.mapping).rows(
            self._files.readable_path(job.id, job.format),
            ReaderLimits(MAX_EVENT_BYTES, limits.max_import_inflated_bytes),
        )
        before = _through(source, job.lines_read)
        read_items = partial(
            read_line,
            website=website,
            occurrences=occurrences,
            accepts_stored_events=job.accepts_stored_events,
        )
        sent_ms = job.created_at_ms
        while self._batch(before, read_items, limits.max_import_rejects, sent_ms) is not None:
            yield None
        rejected = job.rejected
        while batch := self._batch(
            source,
            read_items,
            limits.max_import_rejects - rejected,
            sent_ms,
            is_careful=running.is_careful,
        ):
            rejected += len(batch.rejects)
            running.is_careful = running.is_careful and batch.lines_read < last_line
            yield batch

    def _batch(
        self,
        source: Iterator[Row],
        read_items: _ReadItems,
        max_rejects: int,
        sent_ms: int,
        *,
        is_careful: bool = False,
    ) -> Batch | None:
        """Read the next rows, up to `max_rejects` rejected lines; None at the end of the file.

        sent_ms: when the file was sent. If the clock has been set back since, events up to this
        time are not in the future. is_careful: whether to read only one line.
        """
        if self.worker.is_stopping:
            raise WorkerStopped
        self.worker.report_progress()
        context = EventValidationContext(max(self._clock(), sent_ms))
        most = BATCH_LINES if self._intake.waiting() else LARGE_BATCH_LINES
        most = 1 if is_careful else most
        budget = WorkBudget(most, _BATCH_BYTES, _BATCH_VALUES, monotonic() + _SLICE_S)
        items: list[NewEvent | Claim] = []
        item_rows: list[Row] = []
        rejects: list[Reject] = []
        row: Row | None = None
        identify_lines = empty_lines = ignored_lines = 0
        for row in source:
            empty_lines += row.empty_lines
            ignored_lines += row.ignored_lines
            if row.faults:
                rejects.append(rejected_row(row, row.faults))
                budget.spend(len(row.faults), row.content)
            elif row.content:
                try:
                    read = read_items(row.content, context=context)
                except Invalid as error:
                    rejects.append(rejected_row(row, error.faults))
                    budget.spend(len(error.faults), row.content)
                else:
                    identify_lines += isinstance(read[-1], Claim)
                    items += read
                    item_rows += [row] * len(read)
                    budget.spend(len(read), row.content)
            if len(rejects) >= max_rejects or budget.is_spent():
                break
        return (
            None
            if row is None
            else Batch(
                items,
                item_rows,
                rejects,
                row.lines_read,
                row.bytes_read,
                identify_lines,
                empty_lines,
                ignored_lines,
            )
        )


def _through(source: Iterator[Row], last_line: int) -> Iterator[Row]:
    """Yield the rows up to the given line."""
    while last_line and (row := next(source, None)):
        yield row
        if row.lines_read >= last_line:
            return
