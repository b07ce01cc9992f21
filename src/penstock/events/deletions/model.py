"""Plain types of deletions. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from penstock.base.clock import iso
from penstock.base.ids import DeletionId, ImportId, ScopeId, VisitorId, WebsiteId, WorkspaceId


class Target(StrEnum):
    """What is deleted. visitor, user: in the website's whole identity scope; span: of the website alone."""

    VISITOR = "visitor"
    USER = "user"
    SPAN = "span"


class State(StrEnum):
    """There is no failing: a job that cannot go on waits and tries again, for its identities are gone already."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"


class Step(StrEnum):
    """What a job does, in this order. A step may be done again from its beginning: nothing of it counts twice.

    ship: wait until what was acknowledged before is in the warehouse. merges: remove from the warehouse who counts as the visitor,
    early, for an ID that comes back must not. events: find them in the warehouse and remove them. lists: make the sums of what was seen
    anew from what is left of the websites. keys: let the dedupe keys forget whose event they stand for.
    """

    SHIP = "ship"
    MERGES = "merges"
    EVENTS = "events"
    LISTS = "lists"
    KEYS = "keys"


STEPS: Mapping[Target, tuple[Step, ...]] = {
    Target.VISITOR: tuple(Step),
    Target.USER: tuple(Step),
    Target.SPAN: (Step.SHIP, Step.EVENTS, Step.LISTS),
}


@dataclass(frozen=True, slots=True)
class Deletion:
    """A deletion and how far it is.

    visitor_id, user_id: as asked for; None once it is done. from_ms, to_ms: of a span, the first moment and the first one after it.
    visitor_ids: the canonical visitor and all it absorbed, while it is not done.
    open_imports: imports of its websites that were not done when it was asked for.
    outbox_id, merge_id, key_id: up to which number the outbox is waited for, merges are removed, dedupe keys gone through.
    keys_read: how far the dedupe keys are gone through. step: what is done now or next; None once it is done.
    visitors, user_links, events_removed, keys_cleared: how many. events_found: None until they are counted.
    error: why it waits at the moment. created_at_ms: when it was asked for; what was received later stays.
    """

    id: DeletionId
    workspace_id: WorkspaceId
    website_id: WebsiteId
    scope_id: ScopeId
    target: Target
    visitor_id: str | None
    user_id: str | None
    from_ms: int | None
    to_ms: int | None
    visitor_ids: tuple[VisitorId, ...]
    open_imports: tuple[ImportId, ...]
    outbox_id: int
    merge_id: int
    key_id: int
    keys_read: int
    state: State
    step: Step | None
    visitors: int
    user_links: int
    events_found: int | None
    events_removed: int
    keys_cleared: int
    error: str | None
    created_at_ms: int
    updated_at_ms: int
    finished_at_ms: int | None


class Found(NamedTuple):
    """Events of one website that a deletion removes: how many, and when the first and the last of them occurred."""

    events: int
    first_ms: int
    last_ms: int

    def and_more(self, other: "Found") -> "Found":
        """Both, which have no event in common."""
        return Found(self.events + other.events, min(self.first_ms, other.first_ms), max(self.last_ms, other.last_ms))

    def or_all_of(self, other: "Found") -> "Found":
        """The larger of two, the smaller of which is a part of it."""
        return max(self, other)


class DeletionSpan(NamedTuple):
    """What a deletion touches of a website's history. at_ms: when it was asked for."""

    website_id: WebsiteId
    from_ms: int
    to_ms: int
    at_ms: int
    state: State

    @property
    def reach(self) -> tuple[int, int]:
        return self.from_ms, self.to_ms

    @property
    def note(self) -> str:
        """What it leaves open, in a sentence: the same one for all that are done."""
        if self.state is State.DONE:
            return "Events of the time that this answer reads were deleted; the gaps tell when."
        return f"The deletion of {iso(self.at_ms)} is still running; some of what it removes may be counted."
