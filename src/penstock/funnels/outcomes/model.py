"""Plain types of stored outcomes. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from penstock import __version__
from penstock.base.errors import ConcurrentUpdate
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.funnels.definitions.model import Definition
from penstock.settings import DAY_S
from penstock.warehouse.work import Work

COUNTING_RULES = 4
"""Raise it with every change of the counting rules: rows of other rules are not read, and built
again. 2: ties do not depend on the order of arrival. 3: `null` is not an attempt ID. 4: paths are
canonical.
"""


class Unsettled(Exception):
    """Inserts followed each other so fast that their events could not be counted."""


class Overtaken(ConcurrentUpdate):
    """Another process changes the rows, because this one had lost its lock."""

    def __init__(self) -> None:
        super().__init__(reason="another node has begun to change the outcomes")


class NotStorable(Exception):
    """Events of payment providers match the funnel: whether they count depends on other events."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A definition and the websites whose events it counts: its outcomes can be stored."""

    definition: Definition
    website_ids: tuple[WebsiteId, ...]

    @property
    def outcome(self) -> str:
        """Its name in the event store. Equal definitions over equal websites share their rows.

        Another version of Penstock, or of its rules, may count differently, so it has rows of its
        own.
        """
        parts = (__version__, COUNTING_RULES, self.definition, tuple(sorted(self.website_ids)))
        return sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Mark:
    """The high-water mark of a stored outcome: which events its rows include.

    build: ID of the rows; '' when they are dropped. events_block: number of the newest insert into
    the event store that the rows include. events: number of the websites' events up to that insert.
    read_until_ms: rows include no event that occurs later. next_event_ms: time of the first such
    event, 0 for none. queried_at_ms: time of the last query for the outcome, saved every half hour.
    number: of several marks, the one with the highest number is valid.
    """

    outcome: str
    build: str
    workspace_id: WorkspaceId
    funnel_id: str
    events_block: int
    events: int
    read_until_ms: int
    next_event_ms: int
    queried_at_ms: int
    number: int = 0

    @classmethod
    def empty(cls, outcome: str) -> "Mark":
        """The mark of an outcome without rows."""
        return cls(outcome, "", WorkspaceId(""), "", 0, 0, 0, 0, 0)


DROPPED_MS = DAY_S * 1000
"""How long nobody builds an outcome that was dropped on request."""


class RowChange(NamedTuple):
    """The last change of an outcome's rows, as recorded in the metadata DB.

    number: the mark that ends the change has the same. is_open: the change has not ended, so rows
    may include more events than the mark says. build: the build that it writes; '' for none.
    read_until_ms: rows include no event that occurs later. dropped_until_ms: no node builds the
    outcome before this time.
    """

    outcome: str
    number: int = 0
    is_open: bool = False
    build: str = ""
    opened_at_ms: int = 0
    read_until_ms: int = 0
    dropped_until_ms: int = 0

    def dropped_for_ms(self, now_ms: int) -> int:
        """For how much longer nobody builds the outcome; 0: it may be built.

        More than the whole period means that it was dropped while the clock was ahead.
        """
        left_ms = self.dropped_until_ms - now_ms
        return left_ms if 0 < left_ms <= DROPPED_MS else 0


@dataclass(slots=True)
class PendingBuild:
    """A build that waits or runs. work: its statements. started_at_ms: None while it waits."""

    subject: Subject
    workspace_id: WorkspaceId
    funnel_id: str
    work: Work = field(default_factory=Work)
    started_at_ms: int | None = None
    is_cancelled: bool = False
