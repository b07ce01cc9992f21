"""Writes files whose content and names survive a power failure."""

import os
from pathlib import Path


def write_durably(path: Path, content: bytes) -> None:
    """Write a file and sync it to disk. A new file name is durable only after `sync_folder`."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that the names of its files are durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
