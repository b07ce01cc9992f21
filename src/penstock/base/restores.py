"""Notes in the data folder that it was restored from a backup."""

import json
from pathlib import Path
from typing import NamedTuple

_FILE = "restores.jsonl"


class Restore(NamedTuple):
    """A restore. at, backup_at: ISO 8601 times of the restore and of the backup."""

    at: str
    backup_at: str


def note_restore(folder: Path, restore: Restore) -> None:
    with (folder / _FILE).open("a") as file:
        file.write(json.dumps(restore) + "\n")


def restores(folder: Path) -> list[Restore]:
    """Return the restores of a data folder, oldest first."""
    try:
        lines = (folder / _FILE).read_text().splitlines()
    except FileNotFoundError:
        return []
    return [Restore(*json.loads(line)) for line in lines]
