"""Use cases of deletions. Methods other than `running` block: call them from a worker thread."""

import random
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection

from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.model import Caller, Website
from penstock.accounts.websites.service import WebsiteService
from penstock.base.clock import Clock
from penstock.base.errors import ConcurrentUpdate, NotFound, Unavailable
from penstock.base.ids import DeletionId, ScopeId, VisitorId, WebsiteId, WorkspaceId, new_id
from penstock.base.paging import Listing
from penstock.events import store as events_store
from penstock.events.deletions import store
from penstock.events.deletions.model import (
    STEPS,
    Deletion,
    DeletionSpan,
    DeletionState,
    RetainedHistory,
    Target,
)
from penstock.events.deletions.schema import DeletionIn, read_deletion
from penstock.events.deletions.warehouse_deletion import WarehouseDeletion
from penstock.events.deletions.worker import DeletionWorker
from penstock.events.fields import EventValidationContext
from penstock.events.imports.model import ExcerptSearch
from penstock.events.imports.store import open_imports, remove_excerpts, search_excerpts
from penstock.events.quarantine.selection import containing, forget_quarantined, within
from penstock.events.shipper import Shipper
from penstock.http.schema import RecordsQuery
from penstock.identity import service as identity
from penstock.identity.model import VisitorRemoval
from penstock.identity.profiles import service as profiles
from penstock.metadb.database import Database
from penstock.settings import Settings
from penstock.warehouse.client import Warehouse

ForgetVisitors = Callable[[Connection, ScopeId, Sequence[VisitorId]], dict[str, int]]
"""Removes other rooms' data about visitors, in the given transaction. Returns how much of each."""

_TRIES = 20


class DeletionService:
    """Accepts deletions; a worker carries them out one at a time, oldest first."""

    def __init__(
        self,
        database: Database,
        warehouse: Warehouse,
        websites: WebsiteService,
        shipper: Shipper,
        settings: Settings,
        clock: Clock,
        *,
        forget_in_other_rooms: ForgetVisitors,
    ) -> None:
        """forget_in_other_rooms: removes their data about visitors, in the given transaction."""
        self._forget_in_other_rooms = forget_in_other_rooms
        self._database, self._websites, self._settings, self._clock = (
            database,
            websites,
            settings,
            clock,
        )
        self._warehouse_deletion = WarehouseDeletion(warehouse, pause=lambda: None)
        self.worker = DeletionWorker(database, warehouse, shipper, clock).worker

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Carries out deletions, interrupted ones too. Needs a running shipper."""
        async with self.worker.running():
            yield

    def request(self, by: Caller, body: bytes) -> Deletion:
        """Accept a deletion. On return its identities are gone; events received later stay.

        `Malformed`, `Invalid` with every fault, `Unauthorized` for a foreign website,
        `Unavailable`.
        """
        context = EventValidationContext(self._settings, self._clock())
        target = read_deletion(body, context)
        website = self._websites.stored_website(by.workspace_id, target.website_id)
        website_ids = (
            [website.id]
            if target.target is Target.SPAN
            else self._websites.websites_sharing_visitors(website)
        )
        excerpts = self._search_excerpts(website, target, website_ids)
        deletion = _with_retries(partial(self._begin, by, website, target, website_ids, excerpts))
        # Earlier and later events differ by the millisecond of their receipt, so an event that is
        # sent after the answer must get a later one.
        time.sleep(0.001)
        self.worker.wake()
        return deletion

    def _search_excerpts(
        self, website: Website, target: DeletionIn, website_ids: Collection[WebsiteId]
    ) -> ExcerptSearch:
        """What takes long is done before the transaction, which keeps all events waiting."""
        scopes = [website.scope_id]
        with self._database.read() as db:
            if target.visitor_id is not None:
                people = profiles.find_by_visitor_id(db, scopes, target.visitor_id)
            elif target.user_id is not None:
                people = profiles.find_by_user_id(db, scopes, target.user_id)
            else:
                return ExcerptSearch()
            sent_ids = {target.visitor_id, target.user_id}
            for person in people:
                sent_ids |= {*person.ids, person.user and person.user.id}
            return search_excerpts(db, website_ids, [sent_id for sent_id in sent_ids if sent_id])

    def _begin(
        self,
        by: Caller,
        website: Website,
        target: DeletionIn,
        website_ids: Collection[WebsiteId],
        excerpts: ExcerptSearch,
    ) -> Deletion:
        """Remove the identities and add the deletion, in one transaction."""
        is_span = target.target is Target.SPAN
        with self._database.write() as db:
            removal, removed = VisitorRemoval(), dict[str, int]()
            if not is_span:
                removal = identity.forget(
                    db, website.scope_id, visitor_id=target.visitor_id, user_id=target.user_id
                )
            if removal.ids:
                removed = self._forget_in_other_rooms(
                    db, website.scope_id, [VisitorId(visitor_id) for visitor_id in removal.ids]
                )
            if not is_span:
                sent_ids = {target.visitor_id, target.user_id, removal.user_id, *removal.ids}
                known_ids = [sent_id for sent_id in sent_ids if sent_id]
                removed["rejectedTexts"] = remove_excerpts(
                    db, website_ids, known_ids, earlier=excerpts
                )
                removed["quarantined"] = forget_quarantined(db, website_ids, containing(known_ids))
                removed |= {"visitors": removal.visitors, "userLinks": removal.user_links}
            else:
                period = within(target.from_ or 0, target.to or 0)
                removed["quarantined"] = forget_quarantined(db, website_ids, period)
            highest, now_ms = events_store.highest_ids(db), self._clock()
            is_unknown = not is_span and not removal.ids
            deletion = replace(
                _new_deletion(website, target.target, now_ms),
                visitor_id=target.visitor_id,
                user_id=None if is_unknown else target.user_id,
                from_at_ms=target.from_,
                to_at_ms=target.to,
                visitor_ids=removal.ids,
                open_imports=tuple(open_imports(db, website_ids)),
                outbox_id=highest.bundle,
                merge_id=removal.last_merge,
                key_id=highest.key,
                visitors=removal.visitors,
                user_links=removal.user_links,
                removed={"database": removed} if removed else {},
            )
            if is_unknown:
                deletion = replace(
                    deletion,
                    state=DeletionState.DONE,
                    step=None,
                    events_found=0,
                    finished_at_ms=now_ms,
                )
            store.add(db, deletion, website_ids)
            # Without the ID of the visitor or user, whose traces it is meant to remove.
            audit.record(db, by, Action.DELETION_REQUESTED, f"{deletion.id} {website.id}", now_ms)
        return deletion

    def retain(self, website: Website, kind: str, from_ms: int) -> None:
        """Delete what a website has of one kind of event from before a time, if it has any.

        Does nothing if that was requested before.
        """
        with self._database.read() as db:
            done_up_to_ms = store.retained_since(db, website.id, kind)
        if done_up_to_ms is not None and done_up_to_ms >= from_ms:
            return
        deletion = replace(
            _new_deletion(website, Target.RETENTION, self._clock()), kind=kind, to_at_ms=from_ms
        )
        has_events = self._warehouse_deletion.count(deletion, [website.id])
        with self._database.write() as db:
            removed = forget_quarantined(db, [website.id], within(0, from_ms, kind))
            newest = store.retained_since(db, website.id, kind)
            is_first = newest is None or newest < from_ms  # no other node was faster
            if has_events and is_first:
                counts = {"database": {"quarantined": removed}}
                store.add(db, replace(deletion, removed=counts), [website.id])
        self.worker.wake()

    def find(self, workspace_id: WorkspaceId, deletion_id: str) -> Deletion:
        with self._database.read() as db:
            deletion = store.find(db, workspace_id, deletion_id)
        if deletion is None:
            raise NotFound("There is no such deletion in this workspace.")
        return deletion

    def page(self, workspace_id: WorkspaceId, query: RecordsQuery) -> Listing[Deletion]:
        """Newest first; a website's are those requested with it.

        `Unauthorized` when the website belongs to another workspace.
        """
        if query.website_id is not None:
            self._websites.stored_website(workspace_id, query.website_id)
        with self._database.read() as db:
            return store.page(db, workspace_id, query.website_id, query.pagination)

    def spans(
        self, workspace_id: WorkspaceId, website_ids: Collection[WebsiteId]
    ) -> list[DeletionSpan]:
        """The history that deletions removed, oldest first, for the coverage of reports."""
        with self._database.read() as db:
            return store.spans(db, workspace_id, website_ids)

    def retained_histories(
        self, workspace_id: WorkspaceId, website_ids: Collection[WebsiteId]
    ) -> list[RetainedHistory]:
        """What retention has left of the history, for the coverage of reports."""
        with self._database.read() as db:
            return store.retained_histories(db, workspace_id, website_ids)


def _with_retries(begin: Callable[[], Deletion]) -> Deletion:
    """`Unavailable` when other transactions are in the way each time."""
    for tries_left in reversed(range(_TRIES)):
        try:
            return begin()
        except ConcurrentUpdate as error:
            if not tries_left:
                raise Unavailable(
                    "The store is too busy to begin the deletion; try again.",
                    code="store_unavailable",
                    retry_after_s=5,
                ) from error
        time.sleep(random.uniform(0, 0.1))
    raise AssertionError


def _new_deletion(website: Website, target: Target, now_ms: int) -> Deletion:
    """A deletion that waits for its first step and has removed nothing yet."""
    return Deletion(
        id=DeletionId(new_id("del", now_ms)),
        workspace_id=website.workspace_id,
        website_id=website.id,
        scope_id=website.scope_id,
        target=target,
        visitor_id=None,
        user_id=None,
        from_at_ms=None,
        to_at_ms=None,
        kind=None,
        visitor_ids=(),
        open_imports=(),
        outbox_id=0,
        merge_id=0,
        key_id=0,
        keys_read=0,
        state=DeletionState.QUEUED,
        step=STEPS[target][0],
        visitors=0,
        user_links=0,
        events_found=None,
        events_removed=0,
        keys_cleared=0,
        removed={},
        error=None,
        created_at_ms=now_ms,
        updated_at_ms=now_ms,
        finished_at_ms=None,
    )
