"""Lets the service's own threads go first when the embedded engine wants every core.

On Linux each thread has a nice value of its own and takes it from the thread that created it. All
threads of the engine come from those that opened its connections, so these are opened in a thread
of low priority. Threads of Python keep theirs: one of low priority that holds the interpreter lock
would delay all others.
"""

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Opened = TypeVar("_Opened")

_NICENESS = 10
"""Added to that of the process. A busy core gives such a thread a tenth of its time."""


def open_with_low_priority(open_connection: Callable[[], _Opened]) -> _Opened:
    """What the call returns. Threads that it starts, and theirs, have a low priority on Linux."""
    with ThreadPoolExecutor(1, initializer=_lower_priority) as thread:
        return thread.submit(open_connection).result()


def _lower_priority() -> None:
    if sys.platform == "linux":  # elsewhere it would be that of the whole process
        os.nice(_NICENESS)
