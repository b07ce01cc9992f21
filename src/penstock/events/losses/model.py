"""Plain types of losses. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from enum import StrEnum
from typing import NamedTuple

from penstock.base.clock import iso


class LossState(StrEnum):
    """FOUND: the last comparison found it. ACCEPTED: an operator recorded it for good."""

    FOUND = "found"
    ACCEPTED = "accepted"


class Ledger(NamedTuple):
    """The rows of `events` that the metadata DB knows of.

    stored: rows of all shipments. removed: rows that deletions removed or are about to remove.
    shipment: the highest number of a shipment. is_quiet: whether no shipment of events and no
    deletion is unfinished.
    """

    stored: int
    removed: int
    shipment: int
    is_quiet: bool

    @property
    def expected(self) -> int:
        """Rows that the event store has at least."""
        return self.stored - self.removed


class Loss(NamedTuple):
    """Rows that were missing at `at_ms`; nobody knows which, only that they were stored before.

    rows: 0 when the metadata database had lost its newest entries.
    """

    number: int
    at_ms: int
    rows: int
    state: LossState

    @property
    def note(self) -> str:
        """The gap in a sentence, for reports."""
        if not self.rows:
            return (
                f"The metadata database lost its newest entries before {iso(self.at_ms)}; "
                "events from shortly before may be missing or counted twice."
            )
        return (
            f"The event store lost some of the events that it had before {iso(self.at_ms)}; "
            "they are not counted."
        )


class Comparison(NamedTuple):
    """The rows of `events`. missing: how many of the expected ones are not there.

    surplus: rows beyond the expected ones. is_quiet: whether nothing under way explains them.
    """

    rows: int
    missing: int
    surplus: int
    is_quiet: bool


class NewestShipments(NamedTuple):
    """The highest number of a shipment in each store, and of a merge in the event store.

    event_store: 0: it has none yet. is_open: whether the metadata DB still has to send its one.
    """

    event_store: int
    database: int
    is_open: bool
    merge: int

    @property
    def is_database_behind(self) -> bool:
        """Whether the metadata DB has lost its newest entries."""
        return self.event_store > self.database

    @property
    def is_event_store_behind(self) -> bool:
        """Whether the event store is an older copy. Not known before its first shipment."""
        return 0 < self.event_store < self.database and not self.is_open
