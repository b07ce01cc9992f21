"""Use cases of deletions. Methods block, but for what runs the jobs: call them from a worker thread."""

import random
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager

from anyio import to_thread
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from penstock.accounts.model import Website
from penstock.accounts.service import AccountService
from penstock.base.clock import Clock
from penstock.base.errors import NotFound, Unavailable
from penstock.base.ids import DeletionId, ScopeId, VisitorId, WebsiteId, WorkspaceId, new_id
from penstock.base.paging import Listing
from penstock.events import store as events_store
from penstock.events.deletions import store
from penstock.events.deletions.model import STEPS, Deletion, DeletionSpan, State, Target
from penstock.events.deletions.schema import DeletionIn, read_deletion
from penstock.events.deletions.worker import DeletionWorker
from penstock.events.fields import Bounds
from penstock.events.imports.store import open_imports
from penstock.events.shipper import Shipper
from penstock.http.schema import RecordsQuery
from penstock.identity import service as identity
from penstock.identity.model import Forgotten
from penstock.metadb.database import Database
from penstock.settings import Settings
from penstock.warehouse.client import Warehouse

ForgetVisitors = Callable[[Connection, ScopeId, Sequence[VisitorId]], None]

_TRIES = 20
_BUSY_STATES = ("55P03", "40P01", "40001")  # PostgreSQL: a lock is not free, deadlock, serialization failure


class DeletionService:
    """Takes deletions in and has them carried out, one at a time, oldest first."""

    def __init__(
        self,
        database: Database,
        warehouse: Warehouse,
        accounts: AccountService,
        shipper: Shipper,
        settings: Settings,
        clock: Clock,
        *,
        forget_elsewhere: ForgetVisitors,
    ) -> None:
        """forget_elsewhere: removes what other rooms keep of visitors, in the transaction that it is given."""
        self._forget_elsewhere = forget_elsewhere
        self._database, self._accounts, self._settings, self._clock = database, accounts, settings, clock
        self._worker = DeletionWorker(database, warehouse, shipper, clock)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the service runs, deletions are carried out; those that a stop or a crash interrupted go on. Needs a running shipper."""
        self._worker.start()
        try:
            yield
        finally:
            await to_thread.run_sync(self._worker.stop)

    def ask(self, workspace_id: WorkspaceId, body: bytes) -> Deletion:
        """Take a deletion in. When this returns, identities are gone, and what is received from then on stays.

        `Malformed`, `Invalid` with every fault, `Unauthorized` for a foreign website, `Unavailable`.
        """
        asked = read_deletion(body, Bounds(self._settings, self._clock()))
        website = self._accounts.owned_website(workspace_id, asked.website_id)
        website_ids = [website.id] if asked.target is Target.SPAN else self._accounts.websites_sharing_visitors(website)
        deletion = self._begun(website, asked, website_ids)
        # An event is told from a later one by the millisecond of its receipt: whoever has the answer sends in a later one.
        time.sleep(0.001)
        self._worker.wake()
        return deletion

    def _begun(self, website: Website, asked: DeletionIn, website_ids: Collection[WebsiteId]) -> Deletion:
        for tries_left in reversed(range(_TRIES)):
            try:
                return self._begin(website, asked, website_ids)
            except OperationalError as error:
                if getattr(error.orig, "sqlstate", None) not in _BUSY_STATES:
                    raise
                if not tries_left:
                    raise Unavailable(
                        "The store is too busy to begin right now; try again.", code="store_unavailable", retry_after_s=5
                    ) from error
            time.sleep(random.uniform(0, 0.1))
        raise AssertionError

    def _begin(self, website: Website, asked: DeletionIn, website_ids: Collection[WebsiteId]) -> Deletion:
        """One transaction: identities go, and the deletion is written down."""
        of_somebody = asked.target is not Target.SPAN
        with self._database.write() as db:
            forgotten = (
                identity.forget(db, website.scope_id, visitor_id=asked.visitor_id, user_id=asked.user_id) if of_somebody else Forgotten()
            )
            if forgotten.ids:
                self._forget_elsewhere(db, website.scope_id, [VisitorId(visitor_id) for visitor_id in forgotten.ids])
            newest, now_ms = events_store.newest(db), self._clock()
            nobody = of_somebody and not forgotten.ids
            deletion = Deletion(
                id=DeletionId(new_id("del", now_ms)),
                workspace_id=website.workspace_id,
                website_id=website.id,
                scope_id=website.scope_id,
                target=asked.target,
                visitor_id=asked.visitor_id,
                user_id=None if nobody else asked.user_id,
                from_ms=asked.from_,
                to_ms=asked.to,
                visitor_ids=forgotten.ids,
                open_imports=tuple(open_imports(db, website_ids)),
                outbox_id=newest.bundle,
                merge_id=forgotten.last_merge,
                key_id=newest.key,
                keys_read=0,
                state=State.DONE if nobody else State.QUEUED,
                step=None if nobody else STEPS[asked.target][0],
                visitors=forgotten.visitors,
                user_links=forgotten.user_links,
                events_found=0 if nobody else None,
                events_removed=0,
                keys_cleared=0,
                error=None,
                created_at_ms=now_ms,
                updated_at_ms=now_ms,
                finished_at_ms=now_ms if nobody else None,
            )
            store.add(db, deletion, website_ids)
        return deletion

    def find(self, workspace_id: WorkspaceId, deletion_id: str) -> Deletion:
        with self._database.read() as db:
            deletion = store.find(db, workspace_id, deletion_id)
        if deletion is None:
            raise NotFound("There is no such deletion in this workspace.")
        return deletion

    def page(self, workspace_id: WorkspaceId, query: RecordsQuery) -> Listing[Deletion]:
        """Newest first. A website's are those that were asked for with it; `Unauthorized` when it is not of the workspace."""
        if query.website_id is not None:
            self._accounts.owned_website(workspace_id, query.website_id)
        with self._database.read() as db:
            return store.page(db, workspace_id, query.website_id, query.asked)

    def spans(self, workspace_id: WorkspaceId, website_ids: Collection[WebsiteId]) -> list[DeletionSpan]:
        """What deletions have touched of these websites' history, oldest first: part of what a report's coverage tells."""
        with self._database.read() as db:
            return store.spans(db, workspace_id, website_ids)
