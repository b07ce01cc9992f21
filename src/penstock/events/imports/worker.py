"""Reads stored files through the intake, one batch at a time.

Progress is saved after each batch, so a crash repeats one batch at most. The repeat changes
nothing, because every line has a dedupe key.

If the process dies while it reads an import, the next start reads the lines of that batch one by
one. If it dies again before it stores a line, the import fails.
"""

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from types import MappingProxyType

from penstock.accounts.model import Website
from penstock.accounts.websites.service import WebsiteService
from penstock.base.ids import ImportId
from penstock.base.work_budget import WorkBudget
from penstock.base.worker import WorkerStopped
from penstock.core import Core
from penstock.events import store as events_store
from penstock.events.fields import EventValidationContext
from penstock.events.imports import store
from penstock.events.imports.batches import Batch, advance, repeated_lines, without_rejected
from penstock.events.imports.entries import RowReader
from penstock.events.imports.file_worker import FileWorker
from penstock.events.imports.files import ImportFiles
from penstock.events.imports.formats.reader import Row, UnreadableFile
from penstock.events.imports.formats.table import reader_named
from penstock.events.imports.model import (
    STARTED,
    ImportJob,
    ImportState,
    Reject,
    UnfinishedImport,
    completed,
)
from penstock.events.imports.rejections import RejectionLimits
from penstock.events.intake import Intake
from penstock.events.model import EventCounts
from penstock.events.transaction import Outcome

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
_AGAIN = "again; stored events are recognised as duplicates."
_ENDED_BY_OTHERS = (ImportState.CANCELLED, ImportState.UNDONE)
_MANY_WAITING = 16
"""Number of waiting events from which an import slows down."""
_PAUSE_FACTOR = 2.0
"""Length of the pause after a step while many events wait, relative to the time of the step. With
it, single posts keep 0.7 of their rate.
"""


@dataclass(slots=True)
class _RunningImport:
    """An import in progress, and the results of its current batch.

    After an error, results that are already set are not computed again. reader: reads the rows of
    the batches. rows: the batches that follow; None stands for lines that were already read before
    a restart.
    """

    job: ImportJob
    reader: RowReader
    rows: Generator[Batch | None]
    batch: Batch | None = None
    outcomes: Sequence[Outcome] | None = None


class ImportWorker(FileWorker[_RunningImport]):
    """Stores the events of started imports. Each needs an open file and a temporary database."""

    states = STARTED
    max_running = 64
    internal_error = (
        "Penstock had an internal error; the service log has the details. Once it is fixed, "
        f"import the file {_AGAIN}"
    )

    def __init__(
        self, core: Core, websites: WebsiteService, files: ImportFiles, intake: Intake
    ) -> None:
        super().__init__(TOPIC, core, websites, files)
        self._intake = intake
        self._rejections = RejectionLimits(
            core.settings.max_import_rejects, core.settings.max_import_rejected_percent
        )

    def _waiting(
        self, unfinished: Sequence[UnfinishedImport], present: Collection[str]
    ) -> list[UnfinishedImport]:
        return [each for each in unfinished if not each.is_staged]

    def _interrupted(self, unfinished: UnfinishedImport) -> str:
        lines_read = unfinished.lines_read
        lines = f"the lines after line {lines_read:,}" if lines_read else "the first lines"
        return (
            f"The service stopped twice while it read {lines}. It may have too little memory for "
            f"them. Correct the file and import it {_AGAIN}"
        )

    def _pause_s(self, turn_s: float) -> float:
        return turn_s * _PAUSE_FACTOR if self._is_intake_busy() else 0.0

    def _is_intake_busy(self) -> bool:
        """Whether other senders wait for a commit of many events. They have priority."""
        return self._intake.waiting() >= _MANY_WAITING

    def _open(self, job: ImportJob, website: Website, deaths: int) -> _RunningImport:
        reader = RowReader(website, accepts_stored_events=job.accepts_stored_events)
        return _RunningImport(job, reader, self._batches(job, reader, is_careful=deaths > 0))

    def _read_slice(self, running: _RunningImport) -> bool:
        """Store batches until the time is up, many events wait, or the import has ended."""
        until_s = monotonic() + _SLICE_S
        while running.job.is_open:
            if not self._store_batch(running):
                self._save(replace(completed(running.job), finished_at_ms=self._clock()))
                break
            if running.job.is_open and running.reader.rejections.exceed(self._rejections):
                rejected = running.reader.rejections.text(self._rejections)
                raise UnreadableFile(
                    f"The import stopped after {rejected}. Correct the file and import it {_AGAIN}"
                )
            if monotonic() >= until_s or self._is_intake_busy():
                return False
        self._remove(running.job.id)
        return True

    def _store_batch(self, running: _RunningImport) -> bool:
        """Store the next batch and the job's progress. Returns False at the end of the file."""
        if running.job.state is ImportState.QUEUED:
            running.job = self._save(replace(running.job, state=ImportState.RUNNING))
            return True
        if running.batch is None:
            try:
                running.batch = next(running.rows)
            except StopIteration:
                return False
            if running.batch is None:
                return True
        if running.outcomes is None:
            items = running.batch.items
            if running.job.is_undoable:
                items = [item._replace(import_id=running.job.id) for item in items]
            running.outcomes = self._intake.submit_from_thread(items) if items else []
        # `running` keeps the batch and its outcomes until they are saved, because this step is
        # repeated after an error.
        batch, outcomes = without_rejected(running.batch, running.outcomes)
        job = advance(running.job, batch, outcomes)
        running.job = self._save(job, batch.rejects, repeated_lines(job.id, outcomes))
        for reject in batch.rejects[len(running.batch.rejects) :]:
            running.reader.rejections.add(reject.faults)
        running.batch = running.outcomes = None
        self._attempts.note_progress(running.job.id)
        return True

    def _save(
        self,
        job: ImportJob,
        rejects: list[Reject] | None = None,
        repeated: Mapping[ImportId, int] = MappingProxyType({}),
    ) -> ImportJob:
        """Save a job and return it. If someone has cancelled the job, returns it as cancelled.

        repeated: number of lines that other imports had stored, by import.
        """
        job = replace(job, updated_at_ms=self._clock())
        with self._database.write() as db:
            stored = store.find(db, job.workspace_id, job.id, lock=True)
            if stored is not None and stored.state in _ENDED_BY_OTHERS:
                job = replace(job, state=stored.state, finished_at_ms=stored.finished_at_ms)
            store.save(db, job, rejects or ())
            store.add_duplicates(db, job.id, repeated)
            if rejects:
                refused = EventCounts(received=len(rejects), refused=len(rejects))
                events_store.add_counts(db, {job.website_id: refused})
        return job

    def _batches(
        self, job: ImportJob, reader: RowReader, *, is_careful: bool
    ) -> Generator[Batch | None]:
        """Yield the rest of the file in batches. Earlier lines are read only to count repeats and
        rejected lines.

        is_careful: whether the process died while it read the next batch, whose lines are therefore
        read one by one.
        """
        rows = reader_named(job.format, job.mapping).rows(
            self.files.readable_path(job.id, job.format),
            self._reader_limits(job),
        )
        earlier = _through(rows, job.lines_read)
        while self._batch(earlier, reader, job.created_at_ms):
            yield None
        reader.rejections.number = job.rejected  # Also those that the intake refused.
        last_line = job.lines_read + LARGE_BATCH_LINES if is_careful else 0
        while batch := self._batch(rows, reader, job.created_at_ms, is_careful=is_careful):
            is_careful = batch.lines_read < last_line
            yield batch

    def _batch(
        self,
        rows: Iterator[Row],
        reader: RowReader,
        sent_ms: int,
        *,
        is_careful: bool = False,
    ) -> Batch | None:
        """Read the next rows, until rejected lines end the import; None at the end of the file.

        sent_ms: when the file was sent. If the clock has been set back since, events up to this
        time are not in the future. is_careful: whether to read only one line.
        """
        if self.worker.is_stopping:
            raise WorkerStopped
        self.worker.report_progress()
        context = EventValidationContext(max(self._clock(), sent_ms))
        limit = BATCH_LINES if self._intake.waiting() else LARGE_BATCH_LINES
        limit = 1 if is_careful else limit
        budget = WorkBudget(limit, _BATCH_BYTES, _BATCH_VALUES, monotonic() + _SLICE_S)
        batch = None
        for row in rows:
            batch = batch or Batch()
            results = batch.add(row, reader, context)
            if results:
                budget.spend(results, row.content)
            if budget.is_spent() or reader.rejections.exceed(self._rejections):
                break
        return batch


def _through(rows: Iterator[Row], last_line: int) -> Iterator[Row]:
    """Yield the rows up to the given line."""
    while last_line and (row := next(rows, None)):
        yield row
        if row.lines_read >= last_line:
            return
