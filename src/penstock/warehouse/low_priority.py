"""Lets the service's own threads go first when the embedded engine wants every core.

On Linux each thread has a nice value of its own. The engine starts threads whenever it needs more,
from whichever thread asks it, so they cannot inherit a low priority: it is set afterwards. Threads
of Python keep theirs: one of low priority that holds the interpreter lock would delay all others.
"""

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

_NICENESS = 5
"""Added to that of the process. Beside one of its threads, such a thread gets a quarter of a core.
With 8 or 10 posts are quicker beside reports, but at times it starves beside other programs."""
_THREADS = Path("/proc/self/task")


class EngineThreads:
    """The threads that Python did not start: those of the engine, and libuv's for names."""

    def __init__(self) -> None:
        self._lowered: frozenset[int] = frozenset()

    def lower_priority(self) -> None:
        """Call it when the engine may have started threads. Does nothing but on Linux.

        Raises nothing: where the system refuses, threads have the priority of all others.
        """
        if sys.platform != "linux":
            return
        with suppress(OSError):
            self._lower()

    def _lower(self) -> None:
        running = {int(thread.name) for thread in _THREADS.iterdir()}  # before Python's: they end
        of_python = {thread.native_id for thread in threading.enumerate()}
        if None in of_python:
            return  # one is about to start and would count as the engine's
        own = os.getpriority(os.PRIO_PROCESS, os.getpid())
        engine = frozenset(running - of_python)
        for thread in engine - self._lowered:
            with suppress(ProcessLookupError):  # it has ended
                os.setpriority(os.PRIO_PROCESS, thread, min(own + _NICENESS, 19))
        self._lowered = engine
