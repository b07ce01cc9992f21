"""The base of the two workers that read files: one for imports, and one for their dry runs."""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Generator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from traceback import format_tb
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import structlog
from anyio import to_thread

from penstock.accounts.model import Website
from penstock.accounts.websites.service import WebsiteService
from penstock.base.attempts import MAX_DEATHS
from penstock.base.errors import StoreUnavailable, Unavailable
from penstock.base.event_limits import MAX_EVENT_BYTES
from penstock.base.ids import ImportId, WorkspaceId
from penstock.base.worker import Worker, WorkerStopped
from penstock.core import Core
from penstock.events.imports import store
from penstock.events.imports.files import ImportFiles
from penstock.events.imports.formats.reader import ReaderLimits, UnreadableFile
from penstock.events.imports.model import ImportJob, ImportState, UnfinishedImport

log = structlog.get_logger()

_PERIOD_S = 300.0
"""Time between searches for files whose import nobody started, or that have no import, in seconds.
"""
_LOW_DISK_S = 5.0
"""Pause while the disk has too little free space, in seconds."""
_OVERLOADED_S = 2.0


class OpenFile(Protocol):
    """A file that is being read, and the results so far. rows: the rest of the file."""

    job: ImportJob
    rows: Generator[Any]


R = TypeVar("R", bound=OpenFile)


@dataclass(slots=True)
class _Turn(Generic[R]):
    """An import that is read in turns with those of other workspaces.

    deaths: how often the process died while it read the next rows. file: None until it is open, and
    again after a fault of the disk. error: why the import fails. It remains until it is
    stored, because reading on after an error would find the end of the file.
    """

    unfinished: UnfinishedImport
    deaths: int
    file: R | None = None
    error: str | None = None

    @property
    def revision(self) -> int:
        return self.unfinished.revision if self.file is None else self.file.job.revision

    def close(self) -> None:
        """Close the file, so that the disk has its space once the file is removed."""
        if self.file is not None:
            self.file.rows.close()
            self.file = None


class FileWorker(ABC, Generic[R]):
    """Reads one file per workspace at a time, oldest first. Each step reads one for a short time.

    Workspaces take turns, so that a long file does not delay others. A node reads only files that
    it received, so that several nodes with one metadata DB never share an import. If a store is
    down or the disk has too little free space, an import waits instead of failing. If the process
    dies twice while it reads the same rows, or if reading them reveals a bug, only this import
    fails.
    """

    states: ClassVar[Collection[ImportState]]
    """States of the imports whose files this worker has."""
    max_running: ClassVar[int]
    """Maximum number of files that are open at once."""
    internal_error: ClassVar[str]
    """Why an import fails after a bug."""

    def __init__(
        self, topic: str, core: Core, websites: WebsiteService, files: ImportFiles
    ) -> None:
        """topic: name of the worker, and of the changes that wake it on other nodes."""
        self._database, self._websites, self._settings = core.database, websites, core.settings
        self._clock, self._attempts, self.files = core.clock, core.attempts, files
        self._turns: OrderedDict[WorkspaceId, _Turn[R]] = OrderedDict()
        """Imports that are being read, by workspace. The first continues next."""
        self.worker = Worker(topic, self._step, core.clock, period_s=_PERIOD_S, retry_on_wake=True)
        core.database.changes.subscribe(topic, self.worker.wake)

    @abstractmethod
    def _waiting(
        self, unfinished: Sequence[UnfinishedImport], present: Collection[str]
    ) -> Iterable[UnfinishedImport]:
        """Select the unfinished imports to read, in the same order. present: IDs of the files of
        this node.
        """

    @abstractmethod
    def _interrupted(self, unfinished: UnfinishedImport) -> str:
        """Return why an import fails if the process died whenever it read the next rows."""

    def _reader_limits(self, job: ImportJob, *, is_dry_run: bool = False) -> ReaderLimits:
        """Return how to read the file of an import."""
        return ReaderLimits(
            MAX_EVENT_BYTES,
            self._settings.limits.max_import_inflated_bytes,
            is_dry_run=is_dry_run,
            timezone=job.timezone or "UTC",
        )

    @abstractmethod
    def _open(self, job: ImportJob, website: Website, deaths: int) -> R:
        """Open a file at the point where reading continues. deaths: how often the process died
        there.
        """

    @abstractmethod
    def _read_slice(self, file: R) -> bool:
        """Read until the time of a turn is up. Returns whether nothing is left to do.

        Raises `UnreadableFile` if the import fails, and `Unavailable` if it must wait.
        """

    @abstractmethod
    def _pause_s(self, turn_s: float) -> float:
        """Return the seconds to wait after a turn. turn_s: length of the turn in seconds."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read files during the context, including those that an earlier run began."""
        await to_thread.run_sync(self.files.remove_unfinished)
        async with self.worker.running():
            yield

    def _step(self) -> float | None:
        """Continue one import. Returns the seconds until the next step; None if none is waiting."""
        self._begin_turns()
        if not self._turns:
            return None
        if self._settings.disk_space.is_low():
            return _LOW_DISK_S
        turn = next(iter(self._turns.values()))
        self._turns.move_to_end(turn.unfinished.workspace_id)
        began_s = monotonic()
        try:
            with self._attempts.attempt(turn.unfinished.id):
                has_ended = self._take(turn)
        except Unavailable as error:
            if error.code == "overloaded":  # Live events have priority.
                return _OVERLOADED_S
            raise
        if has_ended:
            self._turns.pop(turn.unfinished.workspace_id).close()
            self._attempts.forget(turn.unfinished.id)
        return self._pause_s(monotonic() - began_s)

    def _begin_turns(self) -> None:
        """Add the oldest import of each workspace without a turn. Remove the files of imports that
        have ended, and close files that were removed or are to be read from the start.
        """
        present = self.files.present()
        # This comes first, so that the disk gets the space even if no store responds.
        self._close_turns(lambda turn: turn.unfinished.id not in present)
        with self._database.read() as db:
            unfinished = store.unfinished_imports(db)
            others = present.difference(each.id for each in unfinished)
            ended = set(store.finished_among(db, others)) if others else set()
        for import_id in ended:
            self._remove(import_id)
        self.files.remove_abandoned(others - ended)
        waiting = [each for each in self._waiting(unfinished, present) if each.id in present]
        revisions = {each.id: each.revision for each in waiting}
        self._close_turns(lambda turn: revisions.get(turn.unfinished.id) != turn.revision)
        for each in waiting:
            if each.workspace_id not in self._turns and len(self._turns) < self.max_running:
                turn = self._turns[each.workspace_id] = _Turn(each, self._attempts.deaths(each.id))
                if turn.deaths >= MAX_DEATHS:
                    turn.error = self._interrupted(each)

    def _close_turns(self, is_over: Callable[[_Turn[R]], bool]) -> None:
        for workspace_id, turn in list(self._turns.items()):
            if is_over(turn):
                self._turns.pop(workspace_id).close()

    def _take(self, turn: _Turn[R]) -> bool:
        """Read a file for a turn. Returns whether nothing is left to do.

        Raises `Unavailable` if the turn must be repeated later.
        """
        unfinished = turn.unfinished
        try:
            if turn.error is None:
                if turn.file is None:
                    turn.file = self._open_file(turn)
                return self._read_slice(turn.file)
        except (Unavailable, WorkerStopped):
            raise
        except UnreadableFile as problem:
            turn.error = str(problem)
        except Exception as error:
            if unfinished.id not in self.files.present():
                return True  # Someone has cancelled the import and so removed its file.
            if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
                turn.close()  # The disk is full, or no file descriptor is free.
                raise StoreUnavailable(reason=str(error)) from error
            self._log_bug(unfinished.id, error)
            turn.error = self.internal_error
        self._end(unfinished, ImportState.FAILED, turn.error)
        return True

    def _open_file(self, turn: _Turn[R]) -> R:
        unfinished = turn.unfinished
        with self._database.read() as db:
            job = store.find(db, unfinished.workspace_id, unfinished.id)
        website = None if job is None else self._websites.find_website(job.website_id)
        if job is None or website is None:
            raise UnreadableFile("The website was deleted.")
        return self._open(job, website, turn.deaths)

    def _end(self, unfinished: UnfinishedImport, state: ImportState, error: str | None) -> None:
        """End an import and remove its file, unless someone has started or ended it meanwhile."""
        with self._database.write() as db:
            is_ended = store.end(db, unfinished, self.states, state, self._clock(), error)
        if is_ended:
            self._remove(unfinished.id)

    def _remove(self, import_id: str) -> None:
        """Remove this node's data of an import that has ended."""
        self.files.remove(import_id)
        self._attempts.forget(import_id)

    def _log_bug(self, import_id: ImportId, error: Exception) -> None:
        """Log an error without its message, which may contain values of the file."""
        log.error(
            f"{self.worker.name.removesuffix('s')}_failed",
            import_id=import_id,
            error=type(error).__name__,
            traceback="".join(format_tb(error.__traceback__)),
        )
