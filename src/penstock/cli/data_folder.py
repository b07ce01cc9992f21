"""Protects the data folder: it is private, used only by Penstock, and used by one process at a
time.
"""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.backup.service import LOCK, RESTORING
from penstock.backup.staging import BACKUP_LOCK, SNAPSHOTS
from penstock.backup.tree import entries_of
from penstock.metadb.secret_box import KEY_FILE
from penstock.metadb.snapshot import DUMP_FILE, SQLITE_FILE

_MARKS = (LOCK, SQLITE_FILE, RESTORING, DUMP_FILE, "warehouse/metadata")
"""Entries that only Penstock creates. Every version creates at least one of them."""
_OWN = {
    LOCK,
    RESTORING,
    BACKUP_LOCK,
    DUMP_FILE,
    KEY_FILE,
    *(SQLITE_FILE + suffix for suffix in ("", "-wal", "-shm", "-journal")),
    *("warehouse", "inserts", "imports", "staged", "clicks", "attempts", SNAPSHOTS),
}
"""Every file that any version writes into its data folder, except the private socket."""


class UnusableFolder(Exception):
    """The command cannot use the data folder. The message is shown to people."""


class InUse(UnusableFolder):
    """Another process uses the data folder."""


def require_data_folder(folder: Path) -> None:
    """Raise `UnusableFolder` unless a Penstock of any version created this folder."""
    if not is_data_folder(folder):
        raise UnusableFolder(f"{folder} contains no Penstock data")


@contextmanager
def data_folder_lock(folder: Path) -> Iterator[None]:
    """Lock the data folder, creating it if needed. The system unlocks it when the process dies.

    Raises `InUse` if another process holds the lock, and `UnusableFolder` if the folder is not
    empty and was not created by Penstock.

    The embedded engine also rejects a second process, but with a message that is harder to read.
    """
    _make_private(folder)
    with (folder / LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            process = lock.read().strip() or "unknown"
            raise InUse(
                f"{folder} is in use by another Penstock (process {process}); stop it first"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def user_of(folder: Path) -> str | None:
    """Return the ID of the process that uses the data folder, if any. Does not hold the lock
    afterwards.
    """
    try:
        with (folder / LOCK).open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return lock.read().strip() or "unknown"
    except OSError:  # missing, or not readable by this user
        return None
    return None


def is_data_folder(folder: Path) -> bool:
    """Whether a Penstock of any version created this folder."""
    return any((folder / mark).exists() for mark in _MARKS)


def _make_private(folder: Path) -> None:
    """Make the data folder and Penstock's files in it readable only by this user.

    Restricts the modes of an older folder once. Other programs' files, targets of symbolic links,
    and a folder that contains other programs' files keep their modes.
    """
    os.umask(0o077)
    folder.mkdir(parents=True, exist_ok=True)
    entries = entries_of(folder)
    if entries and not is_data_folder(folder):
        raise UnusableFolder(
            f"{folder} is not empty and not a data folder of Penstock; choose a new or empty "
            f"folder with --data or PENSTOCK_DATA (if it is one: touch {folder / LOCK})"
        )
    if stat.S_IMODE(folder.stat().st_mode) == 0o700:
        return
    own = [path for path in entries if path.name in _OWN]
    for path in own:
        _tighten(path)
    if len(own) == len(entries):
        folder.chmod(0o700)  # last, so that an interrupted start tries again


def _tighten(path: Path) -> None:
    if path.is_symlink():
        return
    if not path.is_dir():
        path.chmod(0o600)
        return
    for folder, _, files in os.walk(path):
        Path(folder).chmod(0o700)
        for file in (Path(folder, name) for name in files):
            if not file.is_symlink():
                file.chmod(0o600)
