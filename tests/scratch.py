"""Chooses where tests store their files: in memory, if the machine has a file system for that."""

import os
import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
_NEEDED_BYTES = 4 * 1024**3


def use_memory() -> None:
    """Set `TMPDIR` to an in-memory file system with enough space, unless the caller has set it.

    pytest, PostgreSQL, Chromium and every `penstock` process use `TMPDIR`. Tests that wait mostly
    wait until a store has synced to disk. A sync protects against a power failure, which no test
    simulates. SIGKILL loses no written data, synced or not, so tests that kill a process behave the
    same on either kind of file system.
    """
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK):
        return
    if shutil.disk_usage(_MEMORY).free >= _NEEDED_BYTES:
        os.environ["TMPDIR"] = str(_MEMORY)
        tempfile.tempdir = None  # the module caches the folder
