"""The site, built once for the tests of all workers."""

import fcntl
import os
from pathlib import Path

import pytest
from docsite.__main__ import build


def built_site(paths: pytest.TempPathFactory) -> Path:
    """Return the folder of the pages. Another worker may be building it: then wait for it."""
    base = paths.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "built-site"
    with (shared / "built-site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            part = shared / "built-site.part"
            assert build(part) == 0
            part.rename(folder)
    return folder / "html"
