"""Use cases for deletions. Methods block: call them from a worker thread."""

import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection

from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.model import Caller, Website
from penstock.accounts.websites.service import WebsiteService
from penstock.base.errors import ConcurrentUpdate, NotFound, Unavailable
from penstock.base.gaps import Gap
from penstock.base.ids import DeletionId, ImportId, ScopeId, WebsiteId, WorkspaceId
from penstock.base.paging import Listing
from penstock.core import Core
from penstock.events import store as events_store
from penstock.events.deletions import store
from penstock.events.deletions.model import (
    PEOPLE,
    Deletion,
    DeletionState,
    RemainingExport,
    Step,
    Target,
    new_deletion,
)
from penstock.events.deletions.schema import DeletionIn, read_deletion
from penstock.events.deletions.warehouse_deletion import WarehouseDeletion
from penstock.events.deletions.worker import DeletionWorker, ForgetVisitors
from penstock.events.fields import EventValidationContext
from penstock.events.imports.dry_runs.summary_texts import (
    remove_summary_texts,
    summaries_with_texts,
)
from penstock.events.imports.store import (
    naming,
    remove_excerpts,
    search_excerpts,
    unfinished_imports,
)
from penstock.events.quarantine.selection import (
    containing,
    forget_latest_quarantined,
    forget_quarantined,
    within,
)
from penstock.events.repeats import store as repeats_store
from penstock.events.repeats.earlier import store as earlier_store
from penstock.events.shipper import Shipper
from penstock.http.schema import RecordsQuery
from penstock.identity import service as identity
from penstock.identity.model import AllIds, TraitsChange, VisitorRemoval
from penstock.identity.profiles.service import stored_user_id, stored_visitor_id
from penstock.metadb.clock import margin_ms

ReadExports = Callable[[Connection, WorkspaceId, Sequence[int]], list[list[RemainingExport]]]
"""Returns, for each time, the exports that had started by then, except to destinations that a later
export replaced.
"""

_TRIES = 20


class DeletionService:
    """Accepts deletions. A worker performs them one at a time, oldest first, and resumes
    interrupted ones.
    """

    def __init__(
        self,
        core: Core,
        websites: WebsiteService,
        shipper: Shipper,
        *,
        forget_in_other_rooms: ForgetVisitors,
        read_exports: ReadExports,
    ) -> None:
        """Create the service.

        forget_in_other_rooms: removes other rooms' data about visitors, in the given transaction.
        """
        self._database, self._clock, self._websites = core.database, core.clock, websites
        self._forget_in_other_rooms, self._read_exports = forget_in_other_rooms, read_exports
        self._warehouse_deletion = WarehouseDeletion(core.warehouse, pause=lambda: None)
        self.worker = DeletionWorker(core, shipper, forget_in_other_rooms).worker

    def request(self, actor: Caller, body: bytes) -> Deletion:
        """Accept a deletion and delete its identities. Events received later are not deleted.

        Raises `Malformed` or `Invalid` if the body is wrong, `Unauthorized` if the website belongs
        to another workspace, and `Unavailable` if a store does not respond.
        """
        context = EventValidationContext(self._clock())
        target = read_deletion(body, context)
        website = self._websites.stored_website(actor.workspace_id, target.website_id)
        with self._database.read() as db:
            target = _as_stored(db, website.scope_id, target)
        website_ids = (
            [website.id]
            if target.target is Target.SPAN
            else self._websites.websites_sharing_visitors(website)
        )
        quarantined = Counter[str]()
        begin = partial(self._begin, actor, website, target, website_ids, quarantined)
        deletion = _with_retries(begin)
        # The time of receipt separates earlier from later events, so an event sent after the
        # response must be received in a later millisecond, also by a node whose clock is behind.
        time.sleep((1 + 2 * margin_ms(self._clock)) / 1000)
        self.worker.wake()
        return deletion

    def _begin(
        self,
        actor: Caller,
        website: Website,
        target: DeletionIn,
        website_ids: Collection[WebsiteId],
        quarantined: Counter[str],
    ) -> Deletion:
        """Remove the identities and add the deletion, in one transaction.

        All other writes wait for this transaction, so slow reads and removals come before it. If
        there are many visitors, their rows are removed after it. quarantined: number of quarantine
        entries removed in all attempts.
        """
        who = {"visitor_id": target.visitor_id, "user_id": target.user_id}
        is_span = target.target is Target.SPAN
        known, excerpts, summarised = None, None, set[ImportId]()
        if is_span:
            condition = within(target.from_ or 0, target.to or 0)
        else:
            with self._database.read() as db:
                known = identity.all_ids(db, website.scope_id, **who)
            sent_ids = _sent_ids(target, known)
            names_one = naming(sent_ids)
            with self._database.read() as db:
                excerpts = search_excerpts(db, website_ids, names_one)
                summarised = summaries_with_texts(db, website_ids, names_one)
            condition = containing(sent_ids)
        searched = forget_quarantined(self._database, website_ids, condition, quarantined)
        with self._database.write() as db:
            removal, removed = VisitorRemoval(), dict[str, int]()
            now_ms = self._clock()
            if not is_span:
                removal = identity.forget(db, website.scope_id, known, now_ms, **who)
            if removal.ids:
                removed = self._forget_in_other_rooms(
                    db, website.scope_id, removal.ids[:1] if removal.is_open else removal.ids
                )
            if removal.ids and removal.user_links:
                # From now on, reports do not read the traits. The deletion removes the rows.
                none = TraitsChange(website.scope_id, removal.ids[0], {})
                events_store.put_traits_in_outbox(db, [none], now_ms)
            if excerpts is not None:
                removed["rejectedTexts"] = remove_excerpts(db, website_ids, excerpts)
                removed["dryRunTexts"] = remove_summary_texts(
                    db, website_ids, excerpts.contains, summarised
                )
                removed |= {"visitors": removal.visitors, "userLinks": removal.user_links}
            latest = forget_latest_quarantined(db, condition, searched)
            removed["quarantined"] = quarantined.total() + latest
            deletion = replace(
                # Another node's clock may have been ahead when it received an event before this.
                new_deletion(website, target.target, now_ms + margin_ms(self._clock)),
                visitor_id=target.visitor_id,
                user_id=target.user_id,
                from_at_ms=target.from_,
                to_at_ms=target.to,
                visitor_ids=removal.ids,
                open_imports=tuple(
                    each.id for each in unfinished_imports(db, website_ids=website_ids)
                ),
                outbox_id=events_store.highest_bundle(db),
                merge_id=removal.last_merge,
                newest_number=repeats_store.newest_number(db),
                key_id=earlier_store.highest_id(db),
                visitors=removal.visitors,
                user_links=removal.user_links,
                removed={"database": removed} if removed else {},
            )
            if not is_span and not removal.is_open:
                deletion = replace(deletion, step=Step.SHIP)
            if target.target is Target.VISITOR and not removal.ids:
                deletion = replace(
                    deletion,
                    state=DeletionState.DONE,
                    step=None,
                    events_found=0,
                    finished_at_ms=now_ms,
                )
            store.add(db, deletion, website_ids)
            # Do not record the ID of the visitor or user, because the deletion must remove it.
            audit.record(
                db, actor, Action.DELETION_REQUESTED, f"{deletion.id} {website.id}", now_ms
            )
        return deletion

    def retain(self, website: Website, kind: str, from_ms: int) -> None:
        """Delete a website's events of one kind from before the given time, if there are any.

        Does nothing if this was requested before.
        """
        with self._database.read() as db:
            done_up_to_ms = store.retained_since(db, website.id, kind)
        if done_up_to_ms is not None and done_up_to_ms >= from_ms:
            return
        deletion = replace(
            new_deletion(website, Target.RETENTION, self._clock()), kind=kind, to_at_ms=from_ms
        )
        has_events = self._warehouse_deletion.count(deletion, [website.id])
        quarantined = Counter[str]()
        forget_quarantined(self._database, [website.id], within(0, from_ms, kind), quarantined)
        with self._database.write() as db:
            newest = store.retained_since(db, website.id, kind)
            is_first = newest is None or newest < from_ms  # False if another node came first.
            if has_events and is_first:
                counts = {"database": {"quarantined": quarantined.total()}}
                store.add(db, replace(deletion, removed=counts), [website.id])
        self.worker.wake()

    def find(self, workspace_id: WorkspaceId, deletion_id: str) -> Deletion:
        with self._database.read() as db:
            deletion = store.find(db, workspace_id, deletion_id)
        if deletion is None:
            raise NotFound("There is no such deletion in this workspace.")
        return deletion

    def remaining_exports(
        self, deletions: Sequence[Deletion]
    ) -> dict[DeletionId, list[RemainingExport]]:
        """Return the exports that can still contain the person of each deletion, newest first.

        A person can be in every export that starts before the deletion is done. All deletions
        belong to one workspace.
        """
        of_people = [each for each in deletions if each.target in PEOPLE]
        exports = dict[DeletionId, list[RemainingExport]]((each.id, []) for each in deletions)
        if of_people:
            now_ms = self._clock()
            until_ms = [each.finished_at_ms or now_ms for each in of_people]
            with self._database.read() as db:
                read = self._read_exports(db, of_people[0].workspace_id, until_ms)
            exports |= zip((each.id for each in of_people), read, strict=True)
        return exports

    def outdated_exports(self, workspace_id: WorkspaceId) -> list[RemainingExport]:
        """Return the exports that can still contain anyone who was deleted, newest first.

        Each export that can contain the person of an earlier deletion can contain that of the
        latest one.
        """
        with self._database.read() as db:
            until_ms = store.latest_of_people(db, workspace_id, self._clock())
            if until_ms is None:
                return []
            [exports] = self._read_exports(db, workspace_id, [until_ms])
        return exports

    def page(self, workspace_id: WorkspaceId, query: RecordsQuery) -> Listing[Deletion]:
        """List deletions, newest first. A website ID selects deletions requested with it.

        Raises `Unauthorized` if the website belongs to another workspace.
        """
        if query.website_id is not None:
            self._websites.stored_website(workspace_id, query.website_id)
        with self._database.read() as db:
            return store.page(db, workspace_id, query.website_id, query.pagination)

    def gaps(self, workspace_id: WorkspaceId, website_ids: Collection[WebsiteId]) -> list[Gap]:
        """List the gaps that deletions and retention made, for the coverage of reports."""
        with self._database.read() as db:
            return store.gaps(db, workspace_id, website_ids)


def _as_stored(db: Connection, scope: ScopeId, target: DeletionIn) -> DeletionIn:
    """Return the target with its ID as it is stored."""
    ids = {}
    if target.visitor_id is not None:
        ids["visitor_id"] = stored_visitor_id(db, scope, target.visitor_id)
    if target.user_id is not None:
        ids["user_id"] = stored_user_id(db, scope, target.user_id)
    return target.model_copy(update=ids)


def _sent_ids(target: DeletionIn, known: AllIds | None) -> list[str]:
    """Return all IDs of the visitor that stored texts may contain."""
    ids = {target.visitor_id, target.user_id}
    if known is not None:
        ids |= {known.user_id, *known.ids}
    return [sent_id for sent_id in ids if sent_id]


def _with_retries(begin: Callable[[], Deletion]) -> Deletion:
    """Retry after conflicts. Raises `Unavailable` if every attempt conflicts."""
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
