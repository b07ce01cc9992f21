"""Counts the rejected lines of a file, and decides whether they end its import."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.base.errors import Fault
from penstock.base.event_limits import MAX_IMPORT_REJECTED_PERCENT, MAX_IMPORT_REJECTS


class RejectionLimits(NamedTuple):
    """When rejected lines end an import: at this number, if they exceed this share of all lines."""

    lines: int = MAX_IMPORT_REJECTS
    percent: int = MAX_IMPORT_REJECTED_PERCENT


@dataclass(slots=True)
class Rejections:
    """The rejected lines of a file. lines: all lines with content that were read so far."""

    lines: int = 0
    number: int = 0
    _reason: tuple[str, str] | None = None
    _has_several_reasons: bool = False

    def add(self, faults: Sequence[Fault]) -> None:
        """Count a rejected line. Its first fault is its reason."""
        reason = (faults[0].field, faults[0].code)
        self._has_several_reasons |= self._reason not in (None, reason)
        self._reason = reason
        self.number += 1

    def text(self, limits: RejectionLimits) -> str:
        """Return the end of a sentence that says after how many rejected lines an import ends."""
        return f"{self.number:,} rejected lines, more than {limits.percent} % of those read"

    def exceed(self, limits: RejectionLimits) -> bool:
        """Whether they end the import. Lines with a single reason never do: they may be of one kind
        that the other lines are not.
        """
        return (
            self._has_several_reasons
            and self.number >= limits.lines
            and self.number * 100 > self.lines * limits.percent
        )
