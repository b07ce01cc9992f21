"""Returns memory that work has left behind to the system."""

import ctypes
from collections.abc import Callable
from time import monotonic, process_time

from penstock.metadb.database import Database

PERIOD_S = 15.0
"""Seconds between two looks at the process."""
_BUSY_CORES = 0.15
"""Processor time per second above which the process counts as busy. At rest it takes 0.05."""
_LIBC = ctypes.CDLL(None)


class UnusedMemory:
    """The memory of this process that nothing uses once work has ended.

    An import of 100,000 lines leaves 150 MB: SQLite keeps pages for the next statements, and malloc
    keeps freed memory of each thread for its next allocations.
    """

    def __init__(self, database: Database, used_s: Callable[[], float] = process_time) -> None:
        """used_s: returns the processor time of this process in seconds."""
        self._database, self._read_used_s = database, used_s
        self._was_busy = False
        self._looked_s, self._used_s = monotonic(), used_s()

    def look(self) -> None:
        """Return the memory if the process was busy and is now at rest. A worker's step."""
        now_s, used_s = monotonic(), self._read_used_s()
        is_busy = used_s - self._used_s > _BUSY_CORES * (now_s - self._looked_s)
        self._looked_s, self._used_s = now_s, used_s
        if self._was_busy and not is_busy:
            self._database.release_memory()
            if hasattr(_LIBC, "malloc_trim"):  # only in glibc
                _LIBC.malloc_trim(0)
        self._was_busy = is_busy
