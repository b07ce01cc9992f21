"""Reads stored files through the intake, one batch at a time.

Progress is saved after each batch, so a crash repeats one batch at most. The repeat changes
nothing, because every line has a dedupe key.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from time import monotonic
from typing import NamedTuple

import structlog

from penstock.accounts.model import Website
from penstock.accounts.websites.service import WebsiteService
from penstock.base.clock import Clock
from penstock.base.errors import Invalid, Unavailable
from penstock.base.ids import WorkspaceId
from penstock.base.worker import Worker, WorkerStopped
from penstock.events import store as events_store
from penstock.events.fields import EventValidationContext
from penstock.events.imports import store
from penstock.events.imports.entries import (
    Occurrences,
    line_excerpt,
    read_entry,
    stated_ms,
    too_long,
)
from penstock.events.imports.files import ImportFiles, Line, UnreadableFile, lines
from penstock.events.imports.model import ImportJob, ImportState, Reject, completed, stopped
from penstock.events.intake import Intake
from penstock.events.model import EventCounts, NewEvent, Receipt, Rejected, Status
from penstock.metadb.database import Database
from penstock.settings import Settings

log = structlog.get_logger()

BATCH_LINES = 500
_MAX_BATCH_LINES = 50_000
"""With empty lines, of which a small gzip file can have billions."""
_SLICE_S = 0.5
_MAX_READINGS = 64
"""Each has an open file and a temporary database."""
_OVERLOADED_S = 2.0


class Batch(NamedTuple):
    """Events and rejects of some lines.

    event_lines: the line of each event. lines_read, bytes_read: of the file, up to the end of the
    batch.
    """

    events: list[NewEvent]
    event_lines: list[Line]
    rejects: list[Reject]
    lines_read: int
    bytes_read: int


@dataclass(slots=True)
class _Reading:
    """A job in progress, and the step of its current batch: what is set was done and is not
    repeated after an error.

    batches: None stands for lines that were read before a restart.
    """

    job: ImportJob
    batches: Iterator[Batch | None] | None = None
    batch: Batch | None = None
    receipts: list[Receipt | Rejected] | None = None
    finished: ImportJob | None = None


class ImportWorker:
    """One job of each workspace at a time, oldest first; each step is a slice of one job's time.

    Workspaces take turns, so that a long import holds up no other one. A node reads the files that
    it received, so that several nodes with one metadata DB never share a job. A store that is away
    delays a job and never fails it.
    """

    def __init__(
        self,
        database: Database,
        websites: WebsiteService,
        intake: Intake,
        files: ImportFiles,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._database, self._websites, self._intake = database, websites, intake
        self._files, self._settings, self._clock = files, settings, clock
        self._readings: OrderedDict[WorkspaceId, _Reading] = OrderedDict()
        """Begun jobs, the one whose turn is next first."""
        self.worker = Worker("imports", self._step, clock)

    def _step(self) -> float | None:
        """Seconds until the next step; None when no job waits."""
        self._begin_waiting_jobs()
        if not self._readings:
            return None
        workspace_id, reading = next(iter(self._readings.items()))
        self._readings.move_to_end(workspace_id)
        try:
            self._read_slice(reading)
        except Unavailable as error:
            if error.code == "overloaded":  # imports give way to live events
                return _OVERLOADED_S
            raise
        if reading.finished is not None:
            self._save(replace(reading.finished, finished_at_ms=self._clock()))
            self._files.remove(reading.job.id)
            del self._readings[workspace_id]
        return 0.0

    def _begin_waiting_jobs(self) -> None:
        """Begin the oldest job of each workspace that has none in progress.

        Only jobs whose file is on this node.
        """
        here = self._files.present()
        if not here - {str(reading.job.id) for reading in self._readings.values()}:
            return
        with self._database.read() as db:
            jobs = [job for job in store.open_jobs(db) if job.id in here]
        for job in jobs:
            if len(self._readings) < _MAX_READINGS:
                self._readings.setdefault(job.workspace_id, _Reading(job))

    def _read_slice(self, reading: _Reading) -> None:
        """Store batches until the slice is over or the job is finished. `Unavailable`."""
        until_s = monotonic() + _SLICE_S
        while reading.finished is None:
            try:
                if not self._store_batch(reading):
                    reading.finished = completed(reading.job)
                elif reading.job.rejected >= self._settings.max_import_rejects:
                    reading.finished = stopped(reading.job)
            except UnreadableFile as error:
                reading.finished = replace(reading.job, state=ImportState.FAILED, error=str(error))
            if reading.job.state is ImportState.CANCELLED:
                reading.finished = reading.job
            if monotonic() >= until_s:
                return

    def _store_batch(self, reading: _Reading) -> bool:
        """Store the next batch and the job's progress.

        False at the end of the file, or when the job was cancelled. `UnreadableFile`,
        `Unavailable`.
        """
        if reading.batches is None:
            website = self._websites.find_website(reading.job.website_id)
            if website is None:
                raise UnreadableFile("The website was deleted.")
            reading.job = self._save(replace(reading.job, state=ImportState.RUNNING))
            if not reading.job.is_open:
                return False
            reading.batches = self._batches(reading.job, website)
        try:
            if reading.batch is None:
                try:
                    reading.batch = next(reading.batches)
                except StopIteration:
                    return False
                if reading.batch is None:
                    return True
            if reading.receipts is None:
                events = reading.batch.events
                reading.receipts = self._intake.submit_from_thread(events) if events else []
        except (UnreadableFile, Unavailable, WorkerStopped):
            raise
        except Exception as error:  # a bug: the other imports must not wait for it
            log.error("import_failed", import_id=reading.job.id, exc_info=error)
            raise UnreadableFile(
                "Something went wrong on our side; the log has the details."
            ) from error
        reading.batch, receipts = without_rejected(reading.batch, reading.receipts)
        job = advance(reading.job, reading.batch, receipts)
        reading.job = self._save(job, reading.batch.rejects)
        reading.batch = reading.receipts = None
        return True

    def _save(self, job: ImportJob, rejects: list[Reject] | None = None) -> ImportJob:
        """The job as stored: cancelled, with its counts, if someone cancelled it meanwhile."""
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

    def _batches(self, job: ImportJob, website: Website) -> Iterator[Batch | None]:
        """The rest of the file. Lines before it are read again, but only to count equal ones."""
        settings, occurrences = self._settings, Occurrences()
        source = lines(
            self._files.path(job.id),
            max_line_bytes=settings.max_event_bytes,
            max_inflated_bytes=settings.max_import_inflated_bytes,
        )
        before = islice(source, job.lines_read)
        while self._batch(before, website, occurrences, settings.max_import_rejects) is not None:
            yield None
        rejected = job.rejected
        while batch := self._batch(
            source, website, occurrences, settings.max_import_rejects - rejected
        ):
            rejected += len(batch.rejects)
            yield batch

    def _batch(
        self, source: Iterator[Line], website: Website, occurrences: Occurrences, max_rejects: int
    ) -> Batch | None:
        """The next lines; None at the end of the file. Ends early after so many rejects."""
        if self.worker.stopping:
            raise WorkerStopped
        self.worker.report_progress()
        context = EventValidationContext(self._settings, self._clock())
        events: list[NewEvent] = []
        event_lines: list[Line] = []
        rejects: list[Reject] = []
        line: Line | None = None
        for line in islice(source, _MAX_BATCH_LINES):
            number, text, _ = line
            if text is None:
                rejects.append(Reject(number, [too_long(context)]))
            elif text.strip():
                try:
                    events.append(read_entry(text, website, occurrences, context))
                    event_lines.append(line)
                except Invalid as error:
                    rejects.append(
                        Reject(number, error.faults, stated_ms(text), line_excerpt(text))
                    )
            if len(events) + len(rejects) >= BATCH_LINES or len(rejects) >= max_rejects:
                break
        return (
            None
            if line is None
            else Batch(events, event_lines, rejects, line.number, line.bytes_read)
        )


def without_rejected(
    batch: Batch, results: Sequence[Receipt | Rejected]
) -> tuple[Batch, list[Receipt]]:
    """The batch with the events that the intake refused among its rejects; the other receipts."""
    stored, receipts, rejects = list[NewEvent](), list[Receipt](), list(batch.rejects)
    for event, line, result in zip(batch.events, batch.event_lines, results, strict=True):
        if isinstance(result, Rejected):
            text = line.text or b""
            rejects.append(
                Reject(line.number, (result.fault,), event.occurred_at_ms, line_excerpt(text))
            )
        else:
            stored.append(event)
            receipts.append(result)
    return batch._replace(events=stored, rejects=rejects), receipts


def advance(job: ImportJob, batch: Batch, receipts: list[Receipt]) -> ImportJob:
    """The job after a batch. receipts: of its events."""
    times_ms = [event.occurred_at_ms for event in batch.events]
    affected_ms = times_ms + [
        at_ms for reject in batch.rejects for at_ms in _possible_times(reject, job)
    ]
    new_warnings = {warning.code for event in batch.events for warning in event.warnings}
    repeated = sum(receipt.status is Status.DUPLICATE for receipt in receipts)
    first_event_at_ms, last_event_at_ms = _widen(
        job.first_event_at_ms, job.last_event_at_ms, times_ms
    )
    affected_from_ms, affected_to_ms = _widen(job.affected_from_ms, job.affected_to_ms, affected_ms)
    return replace(
        job,
        lines_read=batch.lines_read,
        bytes_read=batch.bytes_read,
        accepted=job.accepted + len(receipts) - repeated,
        duplicates=job.duplicates + repeated,
        rejected=job.rejected + len(batch.rejects),
        first_event_at_ms=first_event_at_ms,
        last_event_at_ms=last_event_at_ms,
        warnings=tuple(sorted({*job.warnings, *new_warnings})),
        affected_from_ms=affected_from_ms,
        affected_to_ms=affected_to_ms,
    )


def _widen(
    first_ms: int | None, last_ms: int | None, times_ms: list[int]
) -> tuple[int | None, int | None]:
    """A span that includes further times. None, None: an empty span."""
    known = [at_ms for at_ms in (first_ms, last_ms, *times_ms) if at_ms is not None]
    return min(known, default=None), max(known, default=None)


def _possible_times(reject: Reject, job: ImportJob) -> list[int]:
    """The time that a rejected line states; without one, any time before the import."""
    return [0, job.created_at_ms] if reject.stated_ms is None else [reject.stated_ms]
