"""Creates the hard links that a backup copies from, and the lock that allows one backup at a time.

A link keeps its file on disk even after the engine has merged the part or deleted its events.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from penstock.backup.model import BackupFailed
from penstock.backup.tree import remove_tree
from penstock.warehouse.frozen_copy import left_over_folders

SNAPSHOTS = "snapshots"
"""Name of the folder for links, in the data folder."""
BACKUP_LOCK = "backup.lock"


@contextmanager
def one_at_a_time(data: Path) -> Iterator[None]:
    """Hold the folder's backup lock, and remove the remains of a killed backup.

    Raises `BackupFailed` if another backup is running.
    """
    with (data / BACKUP_LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupFailed(f"another backup of {data} is running") from None
        for folder in _left_over(data):
            remove_tree(folder)
        yield


@contextmanager
def staging_folder(data: Path) -> Iterator[Path]:
    """Yield a new folder for hard links, on the file system of the data folder."""
    staged = data / SNAPSHOTS / token_hex(8)
    staged.mkdir(parents=True)
    try:
        yield staged
    finally:
        remove_tree(data / SNAPSHOTS)


def remove_left_over_links(data: Path) -> None:
    """Remove the links of a killed backup, unless another backup is running."""
    if _left_over(data):  # avoids taking the lock while another backup is starting
        # An OSError means that another account is running a backup, which must not stop this
        # service.
        with suppress(BackupFailed, OSError), one_at_a_time(data):
            pass


def _left_over(data: Path) -> list[Path]:
    return [*data.glob(SNAPSHOTS), *left_over_folders(data / "warehouse")]
