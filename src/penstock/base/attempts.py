"""Remembers the work during which this process died, so that it does not crash again and again.

Work that needs too much memory, or that crashes a library, ends the process without an error. The
next start would do the same work again. A worker therefore marks its work in a small file before it
begins, and removes the mark when it ends, even after an error. A mark that a start finds means that
the process died.

The marks survive the death of the process. A power failure may remove them, which costs no more
than another attempt. If they cannot be written, for example because the disk is full, the work
continues without them, because it may be what frees the disk.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.base.clock import Clock

MAX_DEATHS = 2
"""Number of deaths in a row, without progress between them, after which work is no longer repeated
unchanged.
"""
_HOLD_MS, _LONGEST_HOLD_MS = 3_600_000, 86_400_000


class Attempts:
    """The marks in one folder. A subject is the ID of a piece of work. Methods block briefly."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder, self._clock = folder, clock

    def deaths(self, subject: str) -> int:
        """Return how often the process died during this work since it last made progress."""
        return len(self._read(subject))

    def held_ms(self, subject: str) -> int:
        """Return how long work that can only be delayed should wait, in milliseconds.

        After `MAX_DEATHS` that is an hour, and twice as long after each further death, up to a day.
        """
        began_at_ms = self._read(subject)
        if len(began_at_ms) < MAX_DEATHS:
            return 0
        hold_ms = min(_HOLD_MS << (len(began_at_ms) - MAX_DEATHS), _LONGEST_HOLD_MS)
        return min(hold_ms, max(0, began_at_ms[-1] + hold_ms - self._clock()))

    @contextmanager
    def attempt(self, subject: str) -> Iterator[None]:
        """Mark work during the context."""
        self._write(subject, [*self._read(subject), self._clock()])
        try:
            yield
        finally:
            self._write(subject, self._read(subject)[:-1])

    def note_progress(self, subject: str) -> None:
        """Forget earlier deaths during an attempt, because the work went beyond them."""
        self._write(subject, [self._clock()])

    def forget(self, subject: str) -> None:
        """Forget a piece of work that has ended."""
        self._write(subject, [])

    def _read(self, subject: str) -> list[int]:
        """Return the start times of the attempts that have not ended, in milliseconds."""
        try:
            lines = (self._folder / subject).read_bytes().split()
        except OSError:
            return []
        return [int(line) for line in lines if line.isdigit()]

    def _write(self, subject: str, began_at_ms: Sequence[int]) -> None:
        path = self._folder / subject
        with suppress(OSError):
            if not began_at_ms:
                path.unlink(missing_ok=True)
                return
            self._folder.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{each}\n" for each in began_at_ms), "ascii")
