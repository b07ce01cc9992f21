"""Plain types for deletions. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from penstock.accounts.model import Website
from penstock.base.clock import iso
from penstock.base.gaps import Gap
from penstock.base.ids import (
    DeletionId,
    ImportId,
    ScopeId,
    VisitorId,
    WebsiteId,
    WorkspaceId,
    new_id,
)


class Target(StrEnum):
    """The data that a deletion removes.

    visitor, user: a person in the website's identity scope. span: the website's events in a period.
    retention: the website's events of one kind that are too old. import: what an import stored.
    """

    VISITOR = "visitor"
    USER = "user"
    SPAN = "span"
    RETENTION = "retention"
    IMPORT = "import"


PEOPLE = (Target.VISITOR, Target.USER)
"""Targets that are a person."""


class DeletionState(StrEnum):
    """State of a deletion. A deletion never fails: it retries, because its identities are already
    deleted.
    """

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"


class Step(StrEnum):
    """The steps of a job, in order. Each step is idempotent and may run again from its start.

    identities: remove the rows of absorbed visitors if the request's transaction could not remove
    all of them. ship: wait until earlier acknowledged events are in the warehouse. merges: remove
    the visitor's traits and merges from the warehouse, so that an absorbed ID that is sent again no
    longer points to the visitor. events: find and remove events. lists: rebuild the catalogue of
    the websites from the remaining events. keys: remove the visitor from dedupe keys.

    For an import, identities removes what only imports that were undone stated, and keys removes
    the import's dedupe keys.
    """

    IDENTITIES = "identities"
    SHIP = "ship"
    MERGES = "merges"
    EVENTS = "events"
    LISTS = "lists"
    KEYS = "keys"


STEPS: Mapping[Target, tuple[Step, ...]] = {
    Target.VISITOR: tuple(Step),
    Target.USER: tuple(Step),
    Target.SPAN: (Step.SHIP, Step.EVENTS, Step.LISTS),
    Target.RETENTION: (Step.EVENTS, Step.LISTS),
    Target.IMPORT: (Step.IDENTITIES, Step.SHIP, Step.EVENTS, Step.LISTS, Step.KEYS),
}


@dataclass(frozen=True, slots=True)
class Deletion:
    """A deletion and its progress.

    visitor_id, user_id: IDs in the request; None once the deletion is done. from_at_ms, to_at_ms:
    start (inclusive) and end (exclusive) of a period; a retention deletion has a kind and only
    to_at_ms. visitor_ids: the canonical visitor and all absorbed visitors; empty once it is done.
    open_imports: imports into its websites that were unfinished at the time of the request.
    outbox_id, merge_id, newest_number: the highest numbers of outbox bundles, merges and events
    that the deletion covers. keys_up_to: the end of the event keys that were searched; None before
    the first. key_id, keys_read: the highest dedupe key of an earlier version that it covers, and
    the last that was searched. step: the current or next
    step; None once done. visitors, user_links, events_removed, keys_cleared: counts. events_found:
    None until counted. removed: counts by store and kind of data. error: why the deletion is
    waiting. created_at_ms: time of the request; events received later are not deleted.
    import_id: the import that is undone.
    """

    id: DeletionId
    workspace_id: WorkspaceId
    website_id: WebsiteId
    scope_id: ScopeId
    target: Target
    state: DeletionState
    created_at_ms: int
    updated_at_ms: int
    step: Step | None = None
    visitor_id: str | None = None
    user_id: str | None = None
    from_at_ms: int | None = None
    to_at_ms: int | None = None
    kind: str | None = None
    visitor_ids: tuple[VisitorId, ...] = ()
    open_imports: tuple[ImportId, ...] = ()
    outbox_id: int = 0
    merge_id: int = 0
    newest_number: int = 0
    keys_up_to: int | None = None
    key_id: int = 0
    keys_read: int = 0
    visitors: int = 0
    user_links: int = 0
    events_found: int | None = None
    events_removed: int = 0
    keys_cleared: int = 0
    removed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    error: str | None = None
    finished_at_ms: int | None = None
    import_id: ImportId | None = None


def new_deletion(website: Website, target: Target, now_ms: int) -> Deletion:
    """Create a deletion that has not performed any step yet."""
    return Deletion(
        id=DeletionId(new_id("del", now_ms)),
        workspace_id=website.workspace_id,
        website_id=website.id,
        scope_id=website.scope_id,
        target=target,
        state=DeletionState.QUEUED,
        step=STEPS[target][0],
        created_at_ms=now_ms,
        updated_at_ms=now_ms,
    )


class RemainingExport(NamedTuple):
    """An export that was made before a deletion and can still contain the person.

    destination_id: see `Export` of the room exports. started_at_ms: start of the last export into
    this folder or bucket before the deletion.
    first_day, last_day: days with events, in UTC; None if it ended before it read any.
    """

    destination: str
    destination_id: str
    started_at_ms: int
    first_day: str | None
    last_day: str | None


class AffectedEvents(NamedTuple):
    """Events of one website that a deletion removes: their number, and the times of the first and
    last.
    """

    events: int
    first_ms: int
    last_ms: int

    def plus(self, other: "AffectedEvents") -> "AffectedEvents":
        """Combine two sets of events that do not overlap."""
        return AffectedEvents(
            self.events + other.events,
            min(self.first_ms, other.first_ms),
            max(self.last_ms, other.last_ms),
        )

    def union(self, other: "AffectedEvents") -> "AffectedEvents":
        """Return the larger set. One set must contain the other."""
        return max(self, other)


def retention_gap(website_id: str, kind: str, from_ms: int) -> Gap:
    """Return the gap of a website whose retention deleted events of one kind before `from_ms`."""
    span = (0, from_ms - 1)
    note = f"The history of {_KIND_NAMES[kind]} begins at {iso(from_ms)} because of retention."
    return Gap(
        "retention",
        WebsiteId(website_id),
        *span,
        span,
        from_ms,
        DeletionState.DONE,
        note,
        event_kind=kind,
    )


_KIND_NAMES = {
    "pageview": "page views",
    "screenview": "screen views",
    "event": "events",
    "transaction": "transactions",
    "provider": "payment events",
}


def deletion_gap(website_id: str, from_ms: int, to_ms: int, at_ms: int, state: str) -> Gap:
    """Return the gap that a deletion makes in a website's history. at_ms: time of the request.

    The note is the same for all finished deletions.
    """
    if state == DeletionState.DONE:
        note = "Events in the period of this answer were deleted; see the gaps for when."
    else:
        note = (
            f"The deletion of {iso(at_ms)} is still running; "
            "some of the events it removes may still be counted."
        )
    span = (from_ms, to_ms)
    return Gap("deletion", WebsiteId(website_id), *span, span, at_ms, state, note)
