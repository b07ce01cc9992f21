"""The click buffer. It lets the service respond to clicks without waiting for the metadata DB.

Each row is first written to a file, without waiting for the disk, so that it survives a crash of
this process. Moments later, one transaction adds the file's rows to the outbox and records the
file's name; then the file is removed. After a crash, the next start flushes the remaining files,
except files whose names are recorded. Only a power failure can lose rows, and only the latest ones.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Condition, Lock

import structlog
from msgspec import DecodeError, json
from sqlalchemy import Connection

from penstock.base.clock import Clock
from penstock.base.durable_files import sync_folder
from penstock.base.ids import new_id
from penstock.base.worker import Backoff, Worker
from penstock.events.model import Target
from penstock.events.service import ship_rows
from penstock.links.clicks import store
from penstock.metadb.database import Database

log = structlog.get_logger()

ProcessRows = Callable[[Connection, Sequence[str]], Sequence[str]]
"""A function that runs in the transaction that moves rows to the outbox. Returns the rows for the
warehouse.
"""

_PREFIX = "spl"
"""Prefix of file names. It must never change, so that files from earlier versions can be read."""
_LINGER_S = 0.05  # delay that lets one commit store several rows
_BACKOFF = Backoff(longest_s=2.0)  # short, because app opens wait for clicks


class ClickBuffer:
    """Buffers rows of the warehouse table `clicks` until they are in the outbox."""

    def __init__(
        self,
        database: Database,
        folder: Path,
        clock: Clock,
        on_stored: Callable[[], None],
        process: ProcessRows,
    ) -> None:
        """folder: used only by this buffer; created if it is missing. on_stored: called after each
        commit.
        """
        self._database, self._folder, self._clock = database, folder, clock
        self._on_stored, self._process = on_stored, process
        self._file: tuple[Path, int] | None = None  # the open file and its descriptor
        self._writing = Lock()
        self._removed: set[str] = set()
        self._added = self._stored = 0  # number of rows in this process
        self._progress = Condition()
        self.worker = Worker(
            "click_buffer", self._step, clock, last_step=self.flush, backoff=_BACKOFF
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Flush while the service runs, starting with files left by a crash."""
        self._folder.mkdir(parents=True, exist_ok=True)
        async with self.worker.running():
            yield

    def add(self, row: bytes) -> None:
        """Write a row, which is a JSON object, without waiting for the disk.

        If the row cannot be written, for example because the disk is full, it is lost, and the loss
        is logged.
        """
        try:
            with self._writing:
                if self._file is None:
                    path = self._folder / new_id(_PREFIX, self._clock())
                    self._file = (
                        path,
                        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600),
                    )
                # The line break comes first, so that a partly written row cannot spoil the next
                # row.
                os.write(self._file[1], b"\n" + row)
                self._added += 1
        except OSError as error:
            log.error("click_lost", target=Target.CLICKS, error=str(error))
        self.worker.wake()

    def wait_until_stored(self, timeout_s: float) -> bool:
        """Block until all rows added so far are in the outbox. Returns False on timeout."""
        added = self._added
        with self._progress:
            return self._progress.wait_for(lambda: self._stored >= added, timeout_s)

    def flush(self) -> None:
        """Move all rows added so far into the outbox. Call it from one thread at a time.

        Errors from the metadata DB propagate, but no rows are lost.
        """
        with self._writing:
            added = self._added
            if self._file is not None:
                os.close(self._file[1])
                self._file = None
        # List the files without holding the lock. Clicks wait for the lock on the event loop, and a
        # long outage of the metadata DB can leave thousands of files.
        paths = sorted(self._folder.glob(f"{_PREFIX}_*"))
        with self._writing:
            open_path = None if self._file is None else self._file[0]
        for path in paths:
            if path != open_path:  # The open file contains rows that were added since.
                self._flush_file(path)
        with self._progress:
            self._stored = added
            self._progress.notify_all()

    def _flush_file(self, path: Path) -> None:
        if self._removed:
            # Names may be forgotten only after their files have been removed durably.
            sync_folder(self._folder)
        with self._database.write() as db:
            if not store.is_file_stored(db, path.name):
                rows = self._process(db, list(_complete_rows(path)))
                ship_rows(db, Target.CLICKS, rows, self._clock())
            store.mark_file_stored(db, path.name, self._removed)
        self._on_stored()
        path.unlink()
        self._removed = {path.name}

    def _step(self) -> None:
        self.worker.pause(_LINGER_S)
        self.flush()


def _complete_rows(path: Path) -> Iterator[str]:
    """Yield the complete rows of a file. Logs a truncated row, which a full disk or a power failure
    can leave.
    """
    for line in path.read_bytes().split(b"\n"):
        if not line:
            continue
        try:
            json.decode(line)
        except DecodeError:
            log.warning("truncated_row", file=path.name)
        else:
            yield line.decode()
