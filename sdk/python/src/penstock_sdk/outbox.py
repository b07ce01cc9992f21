"""The queue of entries that the server has not acknowledged yet, oldest first."""

import os
from collections import OrderedDict
from itertools import islice
from pathlib import Path
from threading import Lock

from penstock_sdk.events import IDENTIFY, Entry

# File with the number of dropped events that no event has reported yet.
_DROPPED = "dropped"


class Full(Exception):
    """The outbox is full, usually because the server has been unreachable for a long time."""


class Outbox:
    """A queue in memory and, with a folder, a file for each entry.

    Thread-safe. Only one process may use a folder at a time. A new process reads the entries that a
    dead process left behind. Files are first written under another name, so that a crash never
    leaves half an entry.
    """

    def __init__(self, folder: Path | None, max_waiting: int) -> None:
        self._folder, self._max_waiting, self._lock = folder, max_waiting, Lock()
        self._entries, self.postponed = OrderedDict[int, Entry](), OrderedDict[int, Entry]()
        self._next = self._dropped = 0
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if (file := folder / _DROPPED).exists():
                self._dropped = int(file.read_text("utf-8"))
            for file in sorted(folder.glob("*.json")):
                self._entries[int(file.stem)] = Entry.load(file.read_text("utf-8"))
            self._next = max(self._entries, default=-1) + 1

    def __len__(self) -> int:
        return len(self._entries) + len(self.postponed)

    def add(self, entry: Entry) -> None:
        """Add an entry.

        Raises `Full` if the queue is full, `ValueError` if the entry is not JSON, and `OSError` if
        the folder is not writable. Dropped events are counted, and the next event reports their
        number.
        """
        text = entry.dump()
        is_event = entry.path != IDENTIFY
        with self._lock:
            if len(self) >= self._max_waiting:
                if is_event:
                    self._set_dropped(self._dropped + 1)
                raise Full(f"{self._max_waiting:,} events wait for Penstock already")
            if self._dropped and is_event:
                text = Entry(entry.path, {**entry.body, "droppedBefore": self._dropped}).dump()
                self._set_dropped(0)
            if self._folder is not None:
                _write(self._folder / f"{self._next:020}.json", text)
            self._entries[self._next] = Entry.load(text)
            self._next += 1

    def _set_dropped(self, number: int) -> None:
        self._dropped = number
        if self._folder is not None:
            _write(self._folder / _DROPPED, str(number))

    def first(self, count: int) -> list[tuple[int, Entry]]:
        with self._lock:
            return list(islice(self._entries.items() or self.postponed.items(), count))

    def postpone(self, number: int) -> None:
        with self._lock:
            entry = self._entries.pop(number, None) or self.postponed.pop(number)
            # It comes after all other entries, including later ones.
            self.postponed[number] = entry

    def remove(self, numbers: list[int]) -> None:
        with self._lock:
            for number in numbers:
                (self._entries if number in self._entries else self.postponed).pop(number)
                if self._folder is not None:
                    (self._folder / f"{number:020}.json").unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)
