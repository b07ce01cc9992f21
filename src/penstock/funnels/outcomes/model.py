"""What is known about stored outcomes."""

from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from penstock import __version__
from penstock.base.errors import ConcurrentUpdate
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.funnels.definitions.model import Definition
from penstock.warehouse.work import Work


class Unsettled(Exception):
    """Inserts came in so fast that their events could not be counted."""


class Overtaken(ConcurrentUpdate):
    """Another process has begun to change the rows, because this one seemed to be gone."""

    def __init__(self) -> None:
        super().__init__(reason="another node has begun to change the outcomes")


class NotStorable(Exception):
    """Events of payment providers match the funnel: whether they count depends on other events."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What outcomes are stored of: a definition over the events of some websites."""

    definition: Definition
    website_ids: tuple[WebsiteId, ...]

    @property
    def outcome(self) -> str:
        """Its name in the event store: equal definitions over equal websites share their rows.

        Another version of the program may count differently, so it has other rows.
        """
        parts = (__version__, self.definition, tuple(sorted(self.website_ids)))
        return sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Mark:
    """What a stored outcome knows.

    build: its rows; '' when they are dropped. events_block: the newest insert into the event store
    that the rows know. events: those of the websites up to there. read_until_ms: later events were
    not read; next_event_ms: the first of them, 0 for none. asked_at_ms: when a query last asked for
    the outcome, as far as it was saved. number: of the mark; the highest holds.
    """

    outcome: str
    build: str
    workspace_id: WorkspaceId
    funnel_id: str
    events_block: int
    events: int
    read_until_ms: int
    next_event_ms: int
    asked_at_ms: int
    number: int = 0

    @classmethod
    def empty(cls, outcome: str) -> "Mark":
        """Of no rows."""
        return cls(outcome, "", WorkspaceId(""), "", 0, 0, 0, 0, 0)


class RowChange(NamedTuple):
    """What the metadata DB has of an outcome: the last change of its rows.

    number: of that change; the mark that ends it has the same. is_open: it has not ended, so rows
    may know more than the mark. build: that it makes; '' if it makes none. read_until_ms: rows know
    no event that occurs later. dropped_until_ms: nobody builds it until then.
    """

    outcome: str
    number: int = 0
    is_open: bool = False
    build: str = ""
    opened_at_ms: int = 0
    read_until_ms: int = 0
    dropped_until_ms: int = 0


@dataclass(slots=True)
class PendingBuild:
    """Outcomes to build. work: its statements. started_at_ms: None while it waits."""

    subject: Subject
    workspace_id: WorkspaceId
    funnel_id: str
    work: Work = field(default_factory=Work)
    started_at_ms: int | None = None
    is_cancelled: bool = False
