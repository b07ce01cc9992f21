"""Plain types for undone imports. No I/O."""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.events.deletions.model import AffectedEvents, Deletion
from penstock.events.imports.model import DuplicateLines
from penstock.identity.imports.model import StatedCounts


class UndoCounts(NamedTuple):
    """Counts of the data that the undo of an import removes.

    events: None if the import has no events. duplicates: lines of other imports that were dropped
    as its duplicates, and are missing afterwards.
    """

    events: AffectedEvents | None
    identities: StatedCounts
    duplicates: Sequence[DuplicateLines]


class Undo(NamedTuple):
    """The undo of an import. counts: None if it was undone before. deletion: None in a dry run."""

    import_id: str
    counts: UndoCounts | None
    deletion: Deletion | None
