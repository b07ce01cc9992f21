"""Plain types for losses. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from enum import StrEnum
from typing import NamedTuple

from penstock.base.clock import iso
from penstock.base.gaps import Gap
from penstock.base.ids import WebsiteId


class LossState(StrEnum):
    """FOUND: the last comparison found the loss. ACCEPTED: an operator accepted the loss
    permanently.
    """

    FOUND = "found"
    ACCEPTED = "accepted"


class Ledger(NamedTuple):
    """Counts of rows in `events`, according to the metadata DB.

    stored: rows of all shipments. removed: rows that deletions removed or are about to remove.
    shipment: the highest shipment number. is_quiet: whether all deletions and shipments of events
    are finished.
    """

    stored: int
    removed: int
    shipment: int
    is_quiet: bool

    @property
    def expected(self) -> int:
        """Minimum number of rows that the event store should have."""
        return self.stored - self.removed


class Loss(NamedTuple):
    """Rows that were missing at `at_ms`. Only their number is known.

    rows: number of missing rows; 0 if the metadata database had lost its newest entries.
    """

    number: int
    at_ms: int
    rows: int
    state: LossState

    def gap(self, website_id: WebsiteId) -> Gap:
        """Return the gap of a website. It covers all time before the loss, because lost events can
        be of any age.
        """
        span = (0, self.at_ms)
        return Gap("loss", website_id, *span, span, self.at_ms, self.state, self.note)

    @property
    def note(self) -> str:
        """A sentence about the gap, for reports."""
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
    """The number of rows of `events`, compared with the ledger.

    missing: number of expected rows that the event store does not have. surplus: number of rows
    beyond the expected ones. is_quiet: whether no shipment or deletion was running that could
    explain the difference.
    """

    rows: int
    missing: int
    surplus: int
    is_quiet: bool


class NewestShipments(NamedTuple):
    """The highest shipment number in each store, and the highest merge number and version of traits
    in the event store.

    event_store: 0 before the first shipment. is_open: whether the newest shipment in the metadata
    DB has not been sent completely yet.
    """

    event_store: int
    database: int
    is_open: bool
    merge: int
    traits: int

    @property
    def is_database_behind(self) -> bool:
        """Whether the metadata DB has lost its newest entries."""
        return self.event_store > self.database

    @property
    def is_event_store_behind(self) -> bool:
        """Whether the event store is an older copy. False before its first shipment."""
        return 0 < self.event_store < self.database and not self.is_open
