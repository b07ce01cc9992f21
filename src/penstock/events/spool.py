"""Rows whose sender does not wait until they are stored.

A row is first written to a file, without waiting for the disk: the system has it then, whatever becomes of this process. A moment later
the rows of the file go into the outbox, in one transaction with the file's name, and the file is removed. After a crash the files that are
left are carried over; the name tells those that were already. Only a machine that loses its power loses rows, those of the last moment.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic, sleep

import structlog
from anyio import to_thread
from msgspec import DecodeError, json
from sqlalchemy.exc import DBAPIError

from penstock.base.clock import Clock
from penstock.base.ids import new_id
from penstock.events import store
from penstock.events.model import Target
from penstock.metadb.database import Database

log = structlog.get_logger()

_LINGER_S = 0.05  # gathers rows into one commit
_RETRY_S = 1.0
_LOOK_S = 0.01


class Spool:
    """Rows of one table of the warehouse on their way to the outbox."""

    def __init__(self, database: Database, folder: Path, target: Target, clock: Clock, on_stored: Callable[[], None]) -> None:
        """folder: of this spool alone; made when it is needed. on_stored: called after each commit; wakes the shipper."""
        self._database, self._folder, self._target, self._clock, self._on_stored = database, folder, target, clock, on_stored
        self._file: tuple[Path, int] | None = None  # what rows are written to, with its descriptor
        self._writing = Lock()
        self._gone: set[str] = set()
        self._wake, self._stopping = Event(), Event()
        self._thread = Thread(target=self._carry_until_stopped, name=f"spool of {target}")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the service runs. Begins with what was left behind, ends with what was added."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._wake.set()
        self._thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            self._wake.set()
            await to_thread.run_sync(self._thread.join)

    def add(self, row: bytes) -> None:
        """Keep a row, a JSON object. Does not wait for the disk. When there is no room for the row it is lost, and the log says so."""
        try:
            with self._writing:
                if self._file is None:
                    path = self._folder / new_id("spl", self._clock())
                    self._file = path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
                # The line break comes first, so that a row of which only a part was written does not spoil the next.
                os.write(self._file[1], b"\n" + row)
        except OSError as error:
            log.error("row_not_kept", target=self._target, error=str(error))
        self._wake.set()

    def wait_until_stored(self, timeout_s: float) -> bool:
        """Wait until the rows that were added before this call are in the outbox; False when the time was not enough. Blocks."""
        deadline_s = monotonic() + timeout_s
        waiting = list(self._folder.glob("spl_*"))
        while waiting := [path for path in waiting if path.exists()]:
            if monotonic() >= deadline_s:
                return False
            sleep(_LOOK_S)
        return True

    def carry(self) -> None:
        """Put all rows that were added into the outbox; one thread at a time. Raises what the metadata DB raises; nothing is lost then."""
        with self._writing:
            if self._file is not None:
                os.close(self._file[1])
                self._file = None
            finished = sorted(self._folder.glob("spl_*"))  # before anyone begins a new one
        for path in finished:
            self._carry_file(path)

    def _carry_file(self, path: Path) -> None:
        if self._gone:
            self._sync_folder()
        with self._database.write() as connection:
            if not store.is_carried(connection, path.name):
                store.put_rows_in_outbox(connection, self._target, list(_rows(path)))
            store.note_carried(connection, path.name, self._gone)
        self._on_stored()
        path.unlink()
        self._gone = {path.name}

    def _sync_folder(self) -> None:
        """Files that are gone stay gone, even if the power goes: only then may their names be forgotten."""
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _carry_until_stopped(self) -> None:
        stopping = False
        while not stopping:
            self._wake.wait()
            self._wake.clear()
            self._stopping.wait(_LINGER_S)
            stopping = self._stopping.is_set()  # asked before carrying, so that the last time has all that was added until the stop
            try:
                self.carry()
            except Exception as error:  # whatever it is, the rows are in their files
                away = isinstance(error, DBAPIError | OSError)
                log.warning("spool_not_carried", target=self._target, error=str(error), exc_info=None if away else error)
                self._stopping.wait(_RETRY_S)
                self._wake.set()


def _rows(path: Path) -> Iterator[str]:
    """The whole rows of a file. One that was cut off, because the disk was full or the power went, is left out and logged."""
    for line in path.read_bytes().split(b"\n"):
        if not line:
            continue
        try:
            json.decode(line)
        except DecodeError:
            log.warning("row_cut_off", file=path.name)
        else:
            yield line.decode()
