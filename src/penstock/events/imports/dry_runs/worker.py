"""Reads staged files for their dry run, a short time per turn, and stores what they contain.

After a restart, a dry run begins again.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from time import monotonic

from penstock.accounts.model import Website
from penstock.accounts.websites.service import WebsiteService
from penstock.base.attempts import MAX_DEATHS, Attempts
from penstock.base.clock import Clock
from penstock.base.errors import StoreUnavailable
from penstock.base.event_limits import MAX_EVENT_BYTES
from penstock.base.ids import WorkspaceId
from penstock.base.worker import Worker
from penstock.events.imports import store
from penstock.events.imports.bugs import log_bug
from penstock.events.imports.dry_runs.schema import ImportSummaryRecord
from penstock.events.imports.dry_runs.summaries import Summariser, Summary, SummaryLimits
from penstock.events.imports.files import ImportFiles
from penstock.events.imports.formats.csv_rows import read_field_names
from penstock.events.imports.formats.guesses import guess_mapping
from penstock.events.imports.formats.reader import (
    ReaderLimits,
    Row,
    Sample,
    UnreadableFile,
)
from penstock.events.imports.formats.table import reader_named
from penstock.events.imports.mappings.service import newest_mapping_of
from penstock.events.imports.model import ImportJob, ImportState, StagedImport
from penstock.metadb.database import Database
from penstock.settings import Settings

TOPIC = "import_checks"
_SLICE_S = 0.2
"""Time limit of a turn, in seconds."""
_PAUSE_S = 0.2
"""Pause after a turn while events wait for their commit, in seconds."""
_PERIOD_S = 300.0
"""Time after which files that nobody started are looked for again, in seconds."""
_MAX_READING_S = 120.0
"""Time for which a file is read, in seconds. The summary of a larger file covers its beginning."""
_MAX_RUNNING = 4
_LIMITS = SummaryLimits(ids=250_000, values=100_000, names=300_000)
"""Limits of each dry run. With these, four need at most about half a gigabyte of memory."""
_LOW_DISK_S = 5.0
"""Pause while the disk has too little free space, in seconds."""
_INTERNAL_ERROR = (
    "Penstock had an internal error; the service log has the details. Once it is fixed, send the "
    "file again."
)
_INTERRUPTED = (
    "The service stopped twice while it read the file. It may have too little memory for it. "
    "Correct the file and send it again."
)
_NOT_STARTED = (
    "Nobody started the import within 24 hours, so its file was removed. Send the file again."
)


@dataclass(slots=True)
class _Check:
    """A dry run in progress.

    sample: the first rows of a table; None for other formats and unreadable files. reading_s:
    seconds of reading so far. summary: set once the file is read, so that it can be saved again
    after an error of the store. is_complete: whether it covers the whole file.
    """

    staged: StagedImport
    job: ImportJob
    rows: Iterator[Row]
    summariser: Summariser
    sample: Sample | None = None
    bytes_read: int = 0
    reading_s: float = 0.0
    summary: Summary | None = None
    is_complete: bool = False


class DryRunWorker:
    """Runs the dry runs of the files that this node received, and removes files nobody starts.

    Each workspace has one dry run at a time, oldest first, and workspaces take turns. An import
    that was started gets its file here, so that no other node needs it.
    """

    def __init__(
        self,
        database: Database,
        websites: WebsiteService,
        staged: ImportFiles,
        started: ImportFiles,
        settings: Settings,
        clock: Clock,
        attempts: Attempts,
        *,
        on_started: Callable[[], None],
        is_busy: Callable[[], bool],
    ) -> None:
        """staged, started: files before and after the start of their import.

        on_started: called when a file is ready for its import. is_busy: whether events wait for
        their commit, which then has priority.
        """
        self._database, self._websites, self._settings = database, websites, settings
        self._staged, self._started, self._clock = staged, started, clock
        self._attempts, self._on_started, self._is_busy = attempts, on_started, is_busy
        self._checks: OrderedDict[WorkspaceId, _Check] = OrderedDict()
        """Running dry runs by workspace. The first continues next."""
        self.worker = Worker(
            "import_checks", self._step, clock, period_s=_PERIOD_S, retry_on_wake=True
        )
        database.changes.subscribe(TOPIC, self.worker.wake)

    def _step(self) -> float | None:
        """Continue one dry run. Returns the seconds until the next step."""
        with self._database.read() as db:
            staged = store.staged_imports(db)
        now_ms = self._clock()
        expired = {each.id for each in staged if each.has_expired(now_ms)}
        for each in staged:
            if each.id in expired:
                # The file goes first: a full disk has room for the record only then.
                self._staged.remove(each.id)
                self._end(each, ImportState.CANCELLED, _NOT_STARTED)
        staged = [each for each in staged if each.id not in expired]
        self._settle_files({str(each.id) for each in staged})
        self._begin_checks(staged)
        if not self._checks:
            return None
        if self._settings.disk_space.is_low():
            return _LOW_DISK_S
        workspace_id, check = next(iter(self._checks.items()))
        self._checks.move_to_end(workspace_id)
        has_ended = True
        with self._failing_only(check.staged), self._attempts.attempt(check.staged.id):
            has_ended = self._read_slice(check)
        if has_ended:
            del self._checks[workspace_id]
            self._attempts.forget(check.staged.id)
        return _PAUSE_S if self._is_busy() else 0.0

    @contextmanager
    def _failing_only(self, staged: StagedImport) -> Iterator[None]:
        """Fail this import after a bug, so that other dry runs go on.

        The step is tried again if a store does not respond, the disk is full, or no file descriptor
        is free.
        """
        try:
            yield
        except FileNotFoundError:
            return  # The import was cancelled or started.
        except StoreUnavailable:
            raise
        except OSError as error:
            self._checks.pop(staged.workspace_id, None)
            raise StoreUnavailable(reason=str(error)) from error
        except Exception as error:
            log_bug("import_check_failed", staged.id, error)
            self._end(staged, ImportState.FAILED, _INTERNAL_ERROR)

    def _end(self, staged: StagedImport, state: ImportState, error: str) -> None:
        """End an import before its start. error: the reason."""
        with self._database.write() as db:
            store.end_staged(db, staged, state, error, self._clock())

    def _settle_files(self, staged_ids: set[str]) -> None:
        """Move the files of started imports, and remove those of imports that have ended."""
        others = self._staged.present() - staged_ids
        if not others:
            return
        with self._database.read() as db:
            started = [each for each in store.started_imports(db) if each.id in others]
            ended = set(store.finished_among(db, others))
        for import_id in ended:
            self._staged.remove(import_id)
            self._attempts.forget(import_id)
        for each in started:
            self._staged.move(each.id, each.format, self._started)
        if started:
            self._on_started()
        self._staged.remove_abandoned(others - ended - {str(each.id) for each in started})

    def _begin_checks(self, staged: Sequence[StagedImport]) -> None:
        """Begin the oldest waiting dry run of each workspace, and drop those that ended.

        A removed file is closed, so that the disk has its space.
        """
        waiting = {each.id: each for each in staged if each.state is ImportState.CHECKING}
        present = self._staged.present() if waiting else set()
        for workspace_id, check in list(self._checks.items()):
            still = waiting.get(check.job.id)
            is_same = still is not None and still.revision == check.job.revision
            if not is_same or check.job.id not in present:
                del self._checks[workspace_id]
        for each in waiting.values():
            is_free = len(self._checks) < _MAX_RUNNING and each.workspace_id not in self._checks
            if not is_free or each.id not in present:
                continue
            if self._attempts.deaths(each.id) >= MAX_DEATHS:
                self._end(each, ImportState.FAILED, _INTERRUPTED)
                continue
            with self._failing_only(each), self._attempts.attempt(each.id):
                self._begin_check(each)

    def _begin_check(self, staged: StagedImport) -> None:
        with self._database.read() as db:
            job = store.find(db, staged.workspace_id, staged.id)
        if job is None:
            return
        website = self._websites.find_website(job.website_id)
        if website is None:
            self._end(staged, ImportState.FAILED, "The website was deleted.")
            return
        sample = self._sample(job)
        job = self._with_mapping(job, sample)
        if job.state is ImportState.CHECKING:
            self._checks[job.workspace_id] = self._check(staged, job, website, sample)

    def _with_mapping(self, job: ImportJob, sample: Sample | None) -> ImportJob:
        """Choose the mapping of a table whose columns are not the fields of an event: the saved
        one of the same columns, or else a guess.

        If the guess lacks something that an import needs, the dry run ends with this.
        """
        if sample is None or job.mapping is not None:
            return job
        with suppress(UnreadableFile):
            read_field_names(list(sample.columns))
            return job
        with self._database.read() as db:
            saved = newest_mapping_of(db, job.workspace_id, sample.columns)
        mapping = saved.mapping if saved else guess_mapping(sample)
        with self._database.write() as db:
            stored = store.find(db, job.workspace_id, job.id, lock=True)
            if stored is None or stored.state is not ImportState.CHECKING:
                return stored or job
            if stored.mapping is not None:  # A client has sent one in the meantime.
                return stored
            stored = replace(
                stored,
                mapping=mapping,
                revision=stored.revision + 1,
                updated_at_ms=self._clock(),
            )
            store.save(db, stored)
        return stored

    def _reader_limits(self) -> ReaderLimits:
        return ReaderLimits(
            MAX_EVENT_BYTES, self._settings.limits.max_import_inflated_bytes, is_dry_run=True
        )

    def _sample(self, job: ImportJob) -> Sample | None:
        """Return the first rows of a table; None for other formats and unreadable files."""
        reader = reader_named(job.format)
        try:
            return reader.sample and reader.sample(
                self._staged.readable_path(job.id, job.format), self._reader_limits()
            )
        except UnreadableFile:
            return None  # The dry run reports it.

    def _check(
        self, staged: StagedImport, job: ImportJob, website: Website, sample: Sample | None
    ) -> _Check:
        rows = reader_named(job.format, job.mapping).rows(
            self._staged.readable_path(job.id, job.format), self._reader_limits()
        )
        summariser = Summariser(
            website,
            max(self._clock(), job.created_at_ms),
            _LIMITS,
            accepts_stored_events=job.accepts_stored_events,
        )
        return _Check(staged, job, rows, summariser, sample)

    def _read_slice(self, check: _Check) -> bool:
        """Read rows until the time is up. Returns whether the dry run has ended."""
        if check.summary is None:
            began_s = monotonic()
            check.summary = self._read_rows(check, began_s + _SLICE_S)
            check.reading_s += monotonic() - began_s
            check.is_complete = check.summary is not None
            if check.summary is None and check.reading_s >= _MAX_READING_S:
                check.summary = check.summariser.summary()
        self._save(check)
        return check.summary is not None

    def _read_rows(self, check: _Check, until_s: float) -> Summary | None:
        """Read rows until the given time; return the summary at the end of the file."""
        most = self._settings.limits.max_import_rejects
        mapping = check.job.mapping
        try:
            if mapping is not None and (gaps := mapping.gaps()):
                raise UnreadableFile(" ".join(gap.message for gap in gaps))
            for row in check.rows:
                check.summariser.add(row)
                check.bytes_read = row.bytes_read
                if check.summariser.rejected >= most:
                    raise UnreadableFile(
                        f"The import would stop after {most:,} rejected lines, the limit. Correct "
                        "the file, or choose another format."
                    )
                if monotonic() >= until_s:
                    return None
        except UnreadableFile as problem:
            return check.summariser.summary(stopped=str(problem))
        check.bytes_read = check.job.bytes_total
        return check.summariser.summary()

    def _save(self, check: _Check) -> None:
        """Save the progress, or the summary. Does nothing if someone has changed the import."""
        with self._database.write() as db:
            job = store.find(db, check.job.workspace_id, check.job.id, lock=True)
            if job is None or job.state is not ImportState.CHECKING:
                return
            if job.revision != check.job.revision:
                return
            job = replace(
                job,
                bytes_read=check.bytes_read,
                lines_read=check.summariser.lines_read,
                updated_at_ms=self._clock(),
            )
            if check.summary is not None:
                job = replace(job, state=ImportState.CHECKED)
                record = ImportSummaryRecord.from_summary(
                    check.summary,
                    is_complete=check.is_complete,
                    sample=check.sample,
                    mapping=job.mapping,
                    revision=job.revision,
                )
                store.save_summary(db, job.id, record.model_dump(mode="json"))
            store.save(db, job)
