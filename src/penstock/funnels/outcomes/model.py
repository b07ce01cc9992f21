"""Plain types for stored outcomes. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from penstock import __version__
from penstock.base.errors import ConcurrentUpdate
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.funnels.definitions.model import Definition
from penstock.settings import DAY_S
from penstock.warehouse.work import Work

COUNTING_RULES = 5
"""Version of the counting rules. Increase it with every change, so that rows are built again.

2: ties do not depend on the order of arrival. 3: `null` is not an attempt ID. 4: paths are
canonical. 5: nor do the events that complete a step, and only events after the entry conflict.
"""


class Unsettled(Exception):
    """Shipments took too long, or another server of the cluster took over in the meantime."""


class Overtaken(ConcurrentUpdate):
    """Another process is changing the rows, because this process lost its lock."""

    def __init__(self) -> None:
        super().__init__(reason="another node has begun to change the outcomes")


class NotStorable(Exception):
    """Events of payment providers match the funnel, and whether these count depends on other
    events.
    """


@dataclass(frozen=True, slots=True)
class Subject:
    """A definition and the websites whose events it counts. Its outcomes can be stored."""

    definition: Definition
    website_ids: tuple[WebsiteId, ...]

    @property
    def outcome(self) -> str:
        """The name of the rows in the event store. Subjects with equal definitions and websites
        share them.

        Other versions of Penstock and of its counting rules may count differently, so they use
        separate rows.
        """
        parts = (__version__, COUNTING_RULES, self.definition, tuple(sorted(self.website_ids)))
        return sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Mark:
    """The high-water mark of a stored outcome: which events its rows include.

    build: ID of the build that the rows belong to; '' if they were dropped. shipment: the rows
    include the shipments up to this number. events: number of the websites' events in them.
    read_until_ms: rows include no event that occurs later. next_event_ms: time of the first later
    event; 0 if none. queried_at_ms: time of the last query for the outcome;
    it may take half an hour until a query on another node is included. number: the mark with the
    highest number is valid.
    """

    outcome: str
    build: str
    workspace_id: WorkspaceId
    funnel_id: str
    shipment: int
    events: int
    read_until_ms: int
    next_event_ms: int
    queried_at_ms: int
    number: int = 0

    @classmethod
    def empty(cls, outcome: str) -> "Mark":
        """Return the mark of an outcome without rows."""
        return cls(outcome, "", WorkspaceId(""), "", 0, 0, 0, 0, 0)


class Copy(NamedTuple):
    """The copy of the rows on the server of the event store that responds.

    server: ID of the server; '' outside a cluster. is_complete: whether it has all rows that any
    server has written. is_stuck: whether it has tried in vain to fetch some for ten minutes.
    """

    server: str = ""
    is_complete: bool = True
    is_stuck: bool = False


class Backlog(NamedTuple):
    """The events since a mark.

    events: number of events. shipment: number of the shipment up to which they are read.
    events_in_all: total number of the websites' events up to it. has_lost: whether events before
    the mark were deleted.
    """

    events: int
    shipment: int
    events_in_all: int
    has_lost: bool


class ChangedUnits(NamedTuple):
    """The units that the events since a mark change.

    units: the time of the first of these events, by unit. has_unitless: whether some events have no
    unit. next_event_ms: time of the first event that is still in the future; 0 if none.
    """

    units: Mapping[int, int]
    has_unitless: bool
    next_event_ms: int

    @property
    def is_empty(self) -> bool:
        return not self.units and not self.has_unitless


LAST_UNIT = 2**64 - 1
"""The largest key of a unit."""


class RowPosition(NamedTuple):
    """How far the rows of a stored outcome have been read, in the order of their changes.

    build: whose rows these are; '' if none were read. base: version from which its rows are
    changes; the earlier ones were there when the build was first read. version, unit: the last row.
    read_until_ms, next_event_ms: as in the mark at that time.
    """

    build: str = ""
    base: int = 0
    version: int = 0
    unit: int = 0
    read_until_ms: int = 0
    next_event_ms: int = 0


class DuePosition(NamedTuple):
    """How far open units have been read, in the order of their entries."""

    entry_ms: int = 0
    unit: int = 0


DROPPED_MS = DAY_S * 1000
"""Time for which an outcome that was dropped on request is not built again, in milliseconds."""


class RowChange(NamedTuple):
    """The last change of an outcome's rows, as recorded in the metadata DB.

    number: the mark that ends the change has the same number. is_open: whether the change has not
    ended, so that rows may include more events than the mark says. build: the build that it writes,
    or ''. read_until_ms: rows include no event that occurs later. dropped_until_ms: no node builds
    the outcome before this time.
    """

    outcome: str
    number: int = 0
    is_open: bool = False
    build: str = ""
    opened_at_ms: int = 0
    read_until_ms: int = 0
    dropped_until_ms: int = 0

    def dropped_for_ms(self, now_ms: int) -> int:
        """Return the remaining milliseconds during which no node builds the outcome; 0 if there are
        none.
        """
        # If the outcome was dropped while the clock was ahead, more than the whole period would be
        # left.
        left_ms = self.dropped_until_ms - now_ms
        return left_ms if 0 < left_ms <= DROPPED_MS else 0


@dataclass(slots=True)
class PendingBuild:
    """A waiting or running build.

    work: controls its statements. started_at_ms: None while the build is waiting. is_cancelled:
    keeps the build from starting; a running build also needs `OutcomeRows.stop`.
    """

    subject: Subject
    workspace_id: WorkspaceId
    funnel_id: str
    work: Work = field(default_factory=Work)
    started_at_ms: int | None = None
    is_cancelled: bool = False
