"""Reads staged files in short turns for their dry runs, and stores the results.

After a restart, a dry run begins again.
"""

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from time import monotonic

from penstock.accounts.model import Website
from penstock.accounts.websites.service import WebsiteService
from penstock.core import Core
from penstock.events.imports import store
from penstock.events.imports.dry_runs.schema import ImportSummaryRecord
from penstock.events.imports.dry_runs.summaries import Summariser, SummaryLimits
from penstock.events.imports.file_worker import FileWorker
from penstock.events.imports.files import ImportFiles
from penstock.events.imports.formats.guesses import guess_mapping
from penstock.events.imports.formats.reader import (
    DateOrder,
    Row,
    Sample,
    UnreadableFile,
)
from penstock.events.imports.formats.schema import ImportMapping
from penstock.events.imports.formats.table import reader_named
from penstock.events.imports.formats.times import swapped_format
from penstock.events.imports.mappings.service import newest_mapping_of
from penstock.events.imports.model import STAGED, ImportJob, ImportState, UnfinishedImport
from penstock.events.imports.rejections import RejectionLimits

TOPIC = "import_checks"
_SLICE_S = 0.2
"""Time limit of a turn, in seconds."""
_PAUSE_S = 0.2
"""Pause after a turn while events wait for their commit, in seconds."""
_MAX_READING_S = 120.0
"""Time for which a file is read, in seconds. The summary of a larger file covers its beginning."""
_LIMITS = SummaryLimits(ids=250_000, values=100_000, names=300_000)
"""Limits of each dry run. With these, four need at most about half a gigabyte of memory."""
_NOT_STARTED = (
    "Nobody started the import within 24 hours, so its file was removed. Send the file again."
)


@dataclass(slots=True)
class _Check:
    """A dry run in progress.

    sample: the first rows of a table; None for other formats and unreadable files. is_guess:
    whether its mapping was guessed from the sample. reading_s:
    seconds of reading so far. error: why the import would fail. summary: set once the file is read,
    so that it can be saved again after an error of the store.
    """

    job: ImportJob
    website: Website
    rows: Generator[Row]
    summariser: Summariser
    sample: Sample | None
    is_guess: bool
    bytes_read: int = 0
    reading_s: float = 0.0
    error: str | None = None
    summary: ImportSummaryRecord | None = None


class DryRunWorker(FileWorker[_Check]):
    """Reads files whose import has not started, and removes those whose import nobody starts.

    An import that was started gets its file here, so that no other node needs it.
    """

    states = STAGED
    max_running = 4
    internal_error = (
        "Penstock had an internal error; the service log has the details. Once it is fixed, send "
        "the file again."
    )

    def __init__(
        self,
        core: Core,
        websites: WebsiteService,
        files: ImportFiles,
        started: ImportFiles,
        *,
        on_started: Callable[[], None],
        is_busy: Callable[[], bool],
    ) -> None:
        """files, started: files before and after the start of their import.

        on_started: called when a file is ready for its import. is_busy: whether events wait for
        their commit, which then has priority.
        """
        super().__init__(TOPIC, core, websites, files)
        self._started, self._on_started, self._is_busy = started, on_started, is_busy

    def _waiting(
        self, unfinished: Sequence[UnfinishedImport], present: Collection[str]
    ) -> list[UnfinishedImport]:
        """Move the files of started imports, and end the imports that nobody started in time."""
        started = [each for each in unfinished if not each.is_staged and each.id in present]
        for each in started:
            self.files.move(each.id, each.format, self._started)
        if started:
            self._on_started()
        now_ms, waiting = self._clock(), list[UnfinishedImport]()
        for each in unfinished:
            if each.expires_at_ms is not None and each.expires_at_ms <= now_ms:
                # The file goes first: a full disk has room for the record only then.
                self.files.remove(each.id)
                self._end(each, ImportState.CANCELLED, _NOT_STARTED)
            elif each.state is ImportState.CHECKING:
                waiting.append(each)
        return waiting

    def _interrupted(self, unfinished: UnfinishedImport) -> str:
        return (
            "The service stopped twice while it read the file. It may have too little memory for "
            "it. Correct the file and send it again."
        )

    def _pause_s(self, turn_s: float) -> float:
        return _PAUSE_S if self._is_busy() else 0.0

    def _open(self, job: ImportJob, website: Website, deaths: int) -> _Check:
        sample = self._sample(job)
        job, is_guess = self._with_mapping(job, sample)
        rows, summariser = self._reading(job, website)
        return _Check(job, website, rows, summariser, sample, is_guess)

    def _reading(self, job: ImportJob, website: Website) -> tuple[Generator[Row], Summariser]:
        """Return the rows of the file from its beginning, and a new summary of them."""
        rows = reader_named(job.format, job.mapping).rows(
            self.files.readable_path(job.id, job.format),
            self._reader_limits(job, is_dry_run=True),
        )
        summariser = Summariser(
            website,
            max(self._clock(), job.created_at_ms),
            _LIMITS,
            RejectionLimits(
                self._settings.max_import_rejects, self._settings.max_import_rejected_percent
            ),
            mapping=job.mapping,
            accepts_stored_events=job.accepts_stored_events,
        )
        return rows, summariser

    def _with_mapping(self, job: ImportJob, sample: Sample | None) -> tuple[ImportJob, bool]:
        """Choose the mapping of a table whose columns are not the fields of an event: the saved
        one of the same columns, or else a guess.

        If the guess lacks something that an import needs, the dry run reports this and ends. Also
        returns whether the mapping is a guess.
        """
        if sample is None or sample.is_mapped or job.mapping is not None:
            return job, False
        with self._database.read() as db:
            saved = newest_mapping_of(db, job.workspace_id, sample.columns)
        mapping = saved.mapping if saved else guess_mapping(sample)
        changed = self._change_mapping(job, mapping)
        return changed, saved is None and changed.mapping == mapping

    def _change_mapping(self, job: ImportJob, mapping: ImportMapping) -> ImportJob:
        """Store another mapping, unless someone has changed the import in the meantime."""
        with self._database.write() as db:
            stored = store.find(db, job.workspace_id, job.id, lock=True)
            if stored is None or stored.state is not ImportState.CHECKING:
                return stored or job
            if stored.revision != job.revision:
                return stored
            return store.change(
                db, stored, self._clock(), mapping=mapping, revision=stored.revision + 1
            )

    def _swap_dates(self, check: _Check) -> bool:
        """Begin again with day and month swapped, if the guess reads them in an order that some row
        does not allow. Returns whether the reading begins again.
        """
        mapping = check.job.mapping
        if not check.is_guess or mapping is None:
            return False
        if check.summariser.date_order is not DateOrder.SWAPPED:
            return False
        check.is_guess = False
        swapped = mapping.with_time_format(swapped_format(mapping.time_format))
        check.job = self._change_mapping(check.job, swapped)
        check.rows, check.summariser = self._reading(check.job, check.website)
        check.error, check.reading_s = None, 0.0
        return True

    def _sample(self, job: ImportJob) -> Sample | None:
        """Return the first rows of a table; None for other formats and unreadable files."""
        reader = reader_named(job.format)
        try:
            sample = reader.sample and reader.sample(
                self.files.readable_path(job.id, job.format),
                self._reader_limits(job, is_dry_run=True),
            )
        except UnreadableFile:
            return None  # The dry run reports it.
        return None if sample and sample.has_paths and sample.is_mapped else sample

    def _read_slice(self, check: _Check) -> bool:
        """Read rows until the time is up. Saves the progress, and in the end the summary."""
        if check.summary is None:
            began_s = monotonic()
            is_complete = self._read_rows(check, began_s + _SLICE_S)
            check.reading_s += monotonic() - began_s
            is_read = is_complete or check.reading_s >= _MAX_READING_S
            if is_read and not self._swap_dates(check):
                check.summary = check.summariser.summary(
                    error=check.error,
                    is_complete=is_complete,
                    sample=check.sample,
                    revision=check.job.revision,
                )
        self._save(check)
        return check.summary is not None

    def _read_rows(self, check: _Check, until_s: float) -> bool:
        """Read rows until the given time. Returns whether the import would read no more of them."""
        mapping = check.job.mapping
        try:
            if mapping is not None and (gaps := mapping.gaps()):
                raise UnreadableFile(" ".join(gap.message for gap in gaps))
            for row in check.rows:
                check.summariser.add(row)
                check.bytes_read = row.bytes_read
                if monotonic() >= until_s:
                    return False
        except UnreadableFile as problem:
            check.error = str(problem)
        else:
            check.bytes_read = check.job.bytes_total
        return True

    def _save(self, check: _Check) -> None:
        """Save the progress, or the summary. Does nothing if someone has changed the import."""
        with self._database.write() as db:
            job = store.find(db, check.job.workspace_id, check.job.id, lock=True)
            if job is None or job.state is not ImportState.CHECKING:
                return
            if job.revision != check.job.revision:
                return
            state = ImportState.CHECKING
            if check.summary is not None:
                state = ImportState.CHECKED
                store.save_summary(db, job.id, check.summary.model_dump(mode="json"))
            store.change(
                db,
                job,
                self._clock(),
                bytes_read=check.bytes_read,
                lines_read=check.summariser.lines_read,
                state=state,
            )
