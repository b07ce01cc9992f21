"""Notes in the data folder that it was restored from a backup."""

from pathlib import Path
from typing import NamedTuple

from msgspec import json

_FILE = "restores.jsonl"


class Restore(NamedTuple):
    """A restore. at, backup_at: ISO 8601 times of the restore and of the backup."""

    at: str
    backup_at: str


def note_restore(folder: Path, restore: Restore) -> None:
    with (folder / _FILE).open("ab") as file:
        file.write(json.encode(restore) + b"\n")


def restores(folder: Path) -> list[Restore]:
    """Return the restores of a data folder, oldest first."""
    try:
        lines = (folder / _FILE).read_text().splitlines()
    except FileNotFoundError:
        return []
    return [json.decode(line, type=Restore) for line in lines]
