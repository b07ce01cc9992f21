"""Performs deletions step by step.

Each finished step is saved, so a crash repeats at most one step. Repeating a step is harmless.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import structlog
from sqlalchemy import Connection

from penstock.base.chunks import chunks
from penstock.base.errors import ConcurrentUpdate, StoreUnavailable
from penstock.base.ids import DeletionId, ScopeId, VisitorId, WebsiteId
from penstock.base.worker import Worker, WorkerStopped
from penstock.core import Core
from penstock.events import store as events_store
from penstock.events.deletions import store
from penstock.events.deletions.model import STEPS, AffectedEvents, Deletion, DeletionState, Step
from penstock.events.deletions.warehouse_deletion import WarehouseDeletion
from penstock.events.losses.store import add_to_ledger
from penstock.events.model import scope_tag
from penstock.events.repeats import store as repeats_store
from penstock.events.repeats.earlier import store as earlier_store
from penstock.events.shipper import Shipper
from penstock.identity import service as identity
from penstock.warehouse.catalogue import rebuild_catalogue
from penstock.warehouse.errors import WAREHOUSE_UNAVAILABLE, QueryFailed

log = structlog.get_logger()

_WORK = 7305808869229538672
"""Advisory lock number. Only one node performs deletions at a time."""

ForgetVisitors = Callable[[Connection, ScopeId, Sequence[VisitorId]], dict[str, int]]
"""Removes other rooms' data about visitors, in the given transaction. Returns counts by kind."""

_LACKS_REPLICA = (
    "A replica of the event store does not respond; the deletion ends once its events are removed "
    "there too."
)
_POLL_S = 2.0  # Polling finds deletions that other nodes left behind.
_PAUSE_S = 0.05
_SHIP_S = 0.5
_KEYS_PER_READ = 50_000
_STORE_ERRORS = (QueryFailed, StoreUnavailable, OSError)


class DeletionHeld(Exception):
    """The process died repeatedly during a deletion, so the deletion waits."""


class DeletionDelayed(Exception):
    """A deletion could not be performed now.

    The error omits the store's message, which may contain the ID to be deleted.
    """


class DeletionWorker:
    """Performs deletions one at a time, oldest first. Only one node at a time does so."""

    def __init__(self, core: Core, shipper: Shipper, forget_in_other_rooms: ForgetVisitors) -> None:
        self._database, self._warehouse, self._clock = core.database, core.warehouse, core.clock
        self._attempts, self._shipper = core.attempts, shipper
        self._forget_in_other_rooms = forget_in_other_rooms
        self._warehouse_deletion = WarehouseDeletion(core.warehouse, pause=self._pause)
        # A statement may rewrite a whole table, so a step has no time limit.
        self.worker = Worker(
            "deletions", self._step, core.clock, period_s=_POLL_S, stalled_after_s=None
        )
        self._delays: dict[DeletionId, str] = {}
        """For each delayed deletion, the type of its last error."""
        self._steps: Mapping[Step, Callable[[Deletion], Deletion]] = {
            Step.IDENTITIES: self._remove_identities,
            Step.SHIP: self._ship,
            Step.MERGES: self._remove_merges,
            Step.EVENTS: self._remove_events,
            Step.LISTS: self._rebuild_lists,
            Step.KEYS: self._clear_keys,
        }
        self._steps_of_imports = {
            **self._steps,
            Step.IDENTITIES: self._undo_identities,
            Step.KEYS: self._remove_keys,
        }

    def _step(self) -> None:
        """Perform all unfinished deletions.

        Raises `DeletionDelayed` if any of them must be tried again.
        """
        with self._database.read() as db:
            if not store.any_open(db):
                self._delays.clear()
                return
        with self._database.exclusive_lock(_WORK) as is_mine:
            if not is_mine:
                self._delays.clear()
                return
            with self._database.read() as db:
                deletions = store.open_deletions(db)
            open_ids = {deletion.id for deletion in deletions}
            self._delays = {id_: kind for id_, kind in self._delays.items() if id_ in open_ids}
            for deletion in deletions:
                self._try(deletion)
        if self._delays:
            kinds = sorted(set(self._delays.values()))
            raise DeletionDelayed(f"{len(self._delays)} waiting: {', '.join(kinds)}")

    def _try(self, deletion: Deletion) -> None:
        """Perform a deletion. If it fails, the other deletions continue, unless a store is down."""
        try:
            self._attempt(deletion)
        except WorkerStopped:
            raise
        except Exception as error:
            is_one = not isinstance(error, StoreUnavailable) or self._concerns_one(error)
            if isinstance(error, _STORE_ERRORS) and is_one and self._lacks_replica():
                # This may take days, in which everything else works.
                self._delays.pop(deletion.id, None)
                self._save_delay(deletion, error, _LACKS_REPLICA)
                return
            kind = type(error).__name__
            if self._delays.get(deletion.id) != kind:
                _log_delay(error, deletion_id=deletion.id)
            self._delays[deletion.id] = kind
            self._save_delay(deletion, error)
            if not is_one:
                raise DeletionDelayed(kind) from None
        else:
            self._delays.pop(deletion.id, None)

    def _concerns_one(self, error: StoreUnavailable) -> bool:
        """Whether other deletions may succeed despite this error."""
        return error.code == WAREHOUSE_UNAVAILABLE and self._warehouse.answers()

    def _lacks_replica(self) -> bool:
        """Whether a replica is down while the others work. The deletion waits for it."""
        return self._warehouse.answers() and self._warehouse.silence is not None

    def _attempt(self, deletion: Deletion) -> None:
        """Perform a deletion, unless the process recently died while performing it."""
        if self._attempts.held_ms(deletion.id):
            raise DeletionHeld
        with self._attempts.attempt(deletion.id):
            self._perform(deletion)
        self._attempts.forget(deletion.id)

    def _perform(self, deletion: Deletion) -> None:
        while (step := deletion.step) is not None:
            if deletion.state is DeletionState.QUEUED:
                deletion = self._save(replace(deletion, state=DeletionState.RUNNING))
            steps = self._steps if deletion.import_id is None else self._steps_of_imports
            deletion = self._save(_advance(steps[step](deletion), step, self._clock()))
            self._attempts.note_progress(deletion.id)

    def _save(self, deletion: Deletion) -> Deletion:
        deletion = replace(deletion, updated_at_ms=self._clock())
        with self._database.write() as db:
            store.save(db, deletion)
        return deletion

    def _save_delay(self, deletion: Deletion, error: Exception, reason: str | None = None) -> None:
        """Show the reason in the deletion's record, if the metadata DB responds."""
        message = reason or "Penstock will try again; the service log has the details."
        if reason is None and isinstance(error, _STORE_ERRORS):
            message = "A store did not respond or finish in time; Penstock will try again."
        if isinstance(error, DeletionHeld):
            message = (
                "The service stopped repeatedly during this deletion, and may have too little "
                "memory for it. Penstock will try again within a day."
            )
        try:
            with self._database.read() as db:
                saved = store.find(db, deletion.workspace_id, deletion.id)
            if saved is not None and saved.error != message:
                self._save(replace(saved, error=message))
        except StoreUnavailable:
            pass  # The worker's state shows the problem instead.

    def _pause(self) -> None:
        self.worker.pause(_PAUSE_S)

    # Methods that perform one step each. Each takes a deletion and returns its state after the
    # step.

    def _remove_identities(self, deletion: Deletion) -> Deletion:
        """Remove visitors in batches, because all other writes wait for each transaction."""
        head = deletion.visitor_ids[0]
        for visitor_ids in chunks(deletion.visitor_ids):
            self._pause()
            with self._database.write() as db:
                identity.forget_absorbed(db, deletion.scope_id, head, visitor_ids)
                counts = self._forget_in_other_rooms(db, deletion.scope_id, visitor_ids)
                deletion = _with_counts(deletion, counts)
                store.save(db, deletion)
        with self._database.write() as db:
            identity.close_release(db, deletion.scope_id, head)
        return deletion

    def _undo_identities(self, deletion: Deletion) -> Deletion:
        """Remove what only the import has stated, a little in each transaction."""
        for part in identity.undone_parts:
            while (undone := self._undo_some(deletion, part)) is not None:
                deletion = undone
                self._pause()
        with self._database.read() as db:
            return replace(deletion, outbox_id=events_store.highest_bundle(db))

    def _undo_some(self, deletion: Deletion, part: str) -> Deletion | None:
        """Remove some of a part of the identities. Returns None if nothing of it is left."""
        assert deletion.import_id is not None
        now_ms = self._clock()
        try:
            with self._database.write() as db:
                undone = identity.undo_some(db, deletion.import_id, part, now_ms)
                if undone is None:
                    return None
                counts = {
                    "visitors": len(undone.visitors),
                    "merges": undone.merges,
                    "userLinks": undone.user_links,
                    "usersWithTraits": undone.users_with_traits,
                }
                if undone.visitors:
                    gone = self._forget_in_other_rooms(db, deletion.scope_id, undone.visitors)
                    counts = {**gone, **counts}
                events_store.put_in_outbox(db, [], undone.changes, now_ms)
                deletion = replace(
                    _with_counts(deletion, counts),
                    visitors=deletion.visitors + len(undone.visitors),
                    user_links=deletion.user_links + undone.user_links,
                    updated_at_ms=now_ms,
                )
                store.save(db, deletion)
        except ConcurrentUpdate:
            pass  # Other transactions use the tables; the next attempt may find a pause.
        return deletion

    def _ship(self, deletion: Deletion) -> Deletion:
        while not self._shipper.wait_until_shipped(_SHIP_S, up_to=deletion.outbox_id):
            self._pause()
        return deletion

    def _remove_merges(self, deletion: Deletion) -> Deletion:
        removed = self._warehouse_deletion.remove_merges(deletion)
        self._warehouse_deletion.remove_traits(deletion)
        return _with_removed(deletion, "merges", removed)

    def _remove_events(self, deletion: Deletion) -> Deletion:
        """Count and remove events until none are left. Events that were received earlier may reach
        the warehouse after the first count.
        """
        with self._database.read() as db:
            websites = store.affected_events(db, deletion)
        # After a crash, the engine resumes an interrupted mutation.
        self._warehouse_deletion.await_mutations("events")
        repeated = False
        while True:
            # Pause shipping, so that no event is removed without being counted.
            with self._shipper.paused():
                counts = self._warehouse_deletion.count(deletion, list(websites))
                if not counts:
                    break
                # Save the counts before the removal. After a crash, the remaining events are
                # counted again, and that count cannot be larger.
                websites |= {
                    site: _total(websites[site], count, repeated) for site, count in counts.items()
                }
                removed = sum(count.events for count in counts.values())
                deletion = self._save_counts(deletion, websites, removed)
                self._warehouse_deletion.begin_removal(deletion, list(websites))
            self._warehouse_deletion.await_mutations("events")
            repeated = True
        deletion = self._save_counts(deletion, websites)
        events = deletion.events_found or 0
        return _with_removed(replace(deletion, events_removed=events), "events", events)

    def _save_counts(
        self,
        deletion: Deletion,
        websites: Mapping[WebsiteId, AffectedEvents | None],
        removed: int = 0,
    ) -> Deletion:
        """Save the counts of events. removed: number of events that the next statement will
        remove.
        """
        counts = {site: count for site, count in websites.items() if count is not None}
        deletion = replace(deletion, events_found=sum(count.events for count in counts.values()))
        with self._database.write() as db:
            store.save(db, deletion)
            store.save_affected_events(db, deletion, counts)
            if removed:
                # After a crash, this is repeated, and the ledger then expects too few rows. The
                # next comparison corrects that. The ledger never expects too many rows.
                add_to_ledger(db, removed=removed)
        return deletion

    def _rebuild_lists(self, deletion: Deletion) -> Deletion:
        with self._database.read() as db:
            websites = [
                website_id
                for website_id, count in store.affected_events(db, deletion).items()
                if count is not None
            ]
        if websites:
            # A concurrent insert would be counted twice, or not at all.
            with self._shipper.paused():
                rebuild_catalogue(self._warehouse, websites, self._pause)
        return deletion

    def _remove_keys(self, deletion: Deletion) -> Deletion:
        """Remove the import's keys, reading all keys in their order."""
        import_id = deletion.import_id
        assert import_id is not None
        with self._database.read() as db:
            if store.any_person_before(db, deletion):
                raise DeletionDelayed("an earlier deletion of a person needs the keys")
        while deletion.keys_read < deletion.key_id:
            self._pause()
            with self._database.read() as db:
                key_ids, position = earlier_store.import_keys(
                    db, import_id, deletion.keys_read, deletion.key_id, _KEYS_PER_READ
                )
            for ids in chunks(key_ids):
                with self._database.write() as db:
                    removed = earlier_store.remove_by_id(db, ids)
                    deletion = _with_counts(deletion, {"dedupeKeys": removed})
                    store.save(db, deletion)
            deletion = self._save(replace(deletion, keys_read=position))
        while deletion.keys_up_to != repeats_store.LAST_KEY:
            self._pause()
            after = deletion.keys_up_to
            with self._database.read() as db:
                end = repeats_store.end_of_slice(db, after, _KEYS_PER_READ)
                keys = repeats_store.import_keys(db, after, end, import_id)
            for chunk in chunks(keys):
                with self._database.write() as db:
                    removed = repeats_store.remove(db, chunk, deletion.newest_number)
                    deletion = _with_counts(deletion, {"dedupeKeys": removed})
                    store.save(db, deletion)
            deletion = self._save(replace(deletion, keys_up_to=end))
        return deletion

    def _clear_keys(self, deletion: Deletion) -> Deletion:
        """Remove the visitor from keys, reading all keys in their order.

        Keys of earlier versions come first: those that are moved meanwhile are found afterwards.
        Each transaction clears some keys and saves the position.
        """
        tag = scope_tag(deletion.scope_id)
        while deletion.keys_read < deletion.key_id:
            self._require_running()
            key_ids: list[int] = []
            position = deletion.key_id
            with self._database.read() as db:
                for ids in chunks(deletion.visitor_ids):
                    chunk_ids, position = earlier_store.visitor_keys(
                        db, tag, ids, deletion.keys_read, deletion.key_id, _KEYS_PER_READ
                    )
                    key_ids += chunk_ids
            with self._database.write() as db:
                cleared = earlier_store.clear(db, key_ids)
                deletion = self._with_cleared(replace(deletion, keys_read=position), cleared)
                store.save(db, deletion)
        while deletion.keys_up_to != repeats_store.LAST_KEY:
            self._require_running()
            after = deletion.keys_up_to
            with self._database.read() as db:
                end = repeats_store.end_of_slice(db, after, _KEYS_PER_READ)
                keys = repeats_store.visitor_keys(db, after, end, tag, deletion.visitor_ids)
            with self._database.write() as db:
                cleared = repeats_store.clear(db, keys, deletion.newest_number)
                deletion = self._with_cleared(replace(deletion, keys_up_to=end), cleared)
                store.save(db, deletion)
        return deletion

    def _require_running(self) -> None:
        if self.worker.is_stopping:
            raise WorkerStopped

    def _with_cleared(self, deletion: Deletion, cleared: int) -> Deletion:
        return replace(
            deletion,
            keys_cleared=deletion.keys_cleared + cleared,
            updated_at_ms=self._clock(),
        )


def _advance(deletion: Deletion, done: Step, now_ms: int) -> Deletion:
    """Return the deletion as it is after the step `done`.

    After the last step, its state is done and its record no longer contains the visitor and user
    IDs.
    """
    steps = STEPS[deletion.target]
    index = steps.index(done) + 1
    if index < len(steps):
        return replace(deletion, step=steps[index], error=None)
    return replace(
        deletion,
        state=DeletionState.DONE,
        step=None,
        error=None,
        visitor_id=None,
        user_id=None,
        visitor_ids=(),
        finished_at_ms=now_ms,
    )


def _with_counts(deletion: Deletion, counts: Mapping[str, int]) -> Deletion:
    """Add counts of data removed from the metadata DB to a deletion."""
    before = deletion.removed.get("database", {})
    after = {**before, **{key: before.get(key, 0) + count for key, count in counts.items()}}
    return replace(deletion, removed={**deletion.removed, "database": after})


def _with_removed(deletion: Deletion, key: str, count: int) -> Deletion:
    """Set a count of data removed from the event store. A repeated step cannot find more."""
    counts = dict(deletion.removed.get("warehouse", {}))
    counts[key] = max(count, counts.get(key, 0))
    return replace(deletion, removed={**deletion.removed, "warehouse": counts})


def _total(before: AffectedEvents | None, count: AffectedEvents, repeated: bool) -> AffectedEvents:
    """Combine a website's counts of events.

    repeated: whether the events of the earlier count were already deleted.
    """
    if before is None:
        return count
    return before.plus(count) if repeated else before.union(count)


def _log_delay(error: Exception, deletion_id: DeletionId) -> None:
    """Log a delay without a store's message, which may contain the ID to be deleted."""
    log.warning(
        "deletion_waits",
        reason=type(error).__name__,
        exc_info=None if isinstance(error, _STORE_ERRORS) else error,
        deletion_id=deletion_id,
    )
