"""Gives the service's own threads priority over the threads of the embedded engine.

On Linux each thread has its own nice value. The engine starts its threads from whichever thread
calls it, so they cannot inherit a low priority; this module sets it afterwards. Python threads keep
normal priority, because a slow thread that holds the interpreter lock would delay all others.
"""

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

_NICENESS = 5
"""Increment of the engine threads' nice value. An engine thread that shares a core with one of the
service's threads then gets a quarter of the core. With 8 or 10, posts are faster while reports run,
but other programs may starve the engine.
"""
_THREADS = Path("/proc/self/task")


class EngineThreads:
    """Threads that Python did not start: the engine's threads, and libuv's for DNS lookups."""

    def __init__(self) -> None:
        self._lowered: frozenset[int] = frozenset()

    def lower_priority(self) -> None:
        """Lower the priority of new engine threads. Call this whenever threads may have started.

        Does nothing on systems other than Linux, or if the system does not allow it.
        """
        if sys.platform != "linux":
            return
        with suppress(OSError):
            self._lower()

    def _lower(self) -> None:
        # List all threads before listing Python's. Otherwise, a Python thread that starts in
        # between would be mistaken for an engine thread.
        running = {int(thread.name) for thread in _THREADS.iterdir()}
        of_python = {thread.native_id for thread in threading.enumerate()}
        if None in of_python:
            return  # A Python thread is starting, and it would look like an engine thread.
        own = os.getpriority(os.PRIO_PROCESS, os.getpid())
        engine = frozenset(running - of_python)
        for thread in engine - self._lowered:
            with suppress(ProcessLookupError):  # The thread has ended.
                os.setpriority(os.PRIO_PROCESS, thread, min(own + _NICENESS, 19))
        self._lowered = engine
