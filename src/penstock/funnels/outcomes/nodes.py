"""Locks of outcomes for the whole installation, which only several nodes need.

With SQLite there are no other nodes, and these functions do nothing. With PostgreSQL, a node holds
an advisory lock, which the database releases when the node dies. A node can lose this lock without
noticing; the records of row changes in `store` deal with that.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore
from time import monotonic

from penstock.funnels.outcomes.model import RowChange
from penstock.metadb.database import Database

_LOCKS_AT_ONCE = BoundedSemaphore(6)
"""Limits the locks of a process. Each occupies one or two connections to PostgreSQL."""


@contextmanager
def hold(database: Database, outcome: str, wait_s: float) -> Iterator[bool]:
    """Hold the lock of an outcome. Yields whether this node got it within `wait_s` seconds."""
    until_s = monotonic() + wait_s
    if not _LOCKS_AT_ONCE.acquire(timeout=wait_s):
        yield False
        return
    try:
        wait_s = max(0.0, until_s - monotonic())
        with database.exclusive_lock(_lock_number(outcome), wait_s) as is_mine:
            yield is_mine
    finally:
        _LOCKS_AT_ONCE.release()


def built_since_ms(database: Database, change: RowChange, now_ms: int) -> int | None:
    """Return when a node began the build that the outcome's last change makes.

    Returns None if no node is building the outcome, or if somebody has cancelled the build.
    """
    is_cancelled = change.dropped_for_ms(now_ms) > 0
    if not change.build or is_cancelled or not database.is_running(_lock_number(change.outcome)):
        return None
    return change.opened_at_ms


def _lock_number(outcome: str) -> int:
    """Return the number of the outcome's advisory lock: the first 63 bits of its name."""
    return int(outcome[:16], 16) >> 1
