"""Carries deletions out, step by step. Each step that is done is saved, so a crash repeats one step at most; the repeat changes nothing."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import Event, Thread

import structlog
from sqlalchemy.exc import DBAPIError

from penstock.base.clock import Clock
from penstock.base.ids import WebsiteId
from penstock.events import store as events_store
from penstock.events.deletions import store
from penstock.events.deletions.archive import Archive
from penstock.events.deletions.model import STEPS, Deletion, Found, State, Step
from penstock.events.model import scope_tag
from penstock.events.shipper import Shipper
from penstock.metadb.database import Database
from penstock.warehouse.client import QueryFailed, Warehouse

log = structlog.get_logger()

_WORK = 7305808869229538672
"""The number by which nodes agree who does it."""

_POLL_S = 2.0  # finds what other nodes left behind
_RETRY_S = 2.0
_REST_S = 0.05
_SHIP_S = 0.5
_KEYS_AT_ONCE = 50_000
_IDS_AT_ONCE = 500
_STORE_ERRORS = (QueryFailed, DBAPIError, OSError)


class _Stopped(Exception):
    """The service stops; the deletion goes on after the next start."""


class DeletionWorker:
    """One thread. It does one deletion at a time, oldest first, and on PostgreSQL one node at a time does them."""

    def __init__(self, database: Database, warehouse: Warehouse, shipper: Shipper, clock: Clock) -> None:
        self._database, self._shipper, self._clock = database, shipper, clock
        self._archive = Archive(warehouse, self._rest)
        self._wake, self._stopping = Event(), Event()
        self._thread = Thread(target=self._work_until_stopped, name="deletions", daemon=True)
        self._steps: Mapping[Step, Callable[[Deletion], Deletion]] = {
            Step.SHIP: self._ship,
            Step.MERGES: self._remove_merges,
            Step.EVENTS: self._remove_events,
            Step.LISTS: self._rebuild_lists,
            Step.KEYS: self._clear_keys,
        }

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """A deletion was asked for. Never blocks."""
        self._wake.set()

    def stop(self) -> None:
        """Leave the step at hand; it is done again after the next start. Blocks until the thread has ended."""
        self._stopping.set()
        self._wake.set()
        self._thread.join()

    def _work_until_stopped(self) -> None:
        while not self._stopping.is_set():
            try:
                tidy = self._work()
            except _Stopped:
                return
            except Exception as error:
                tidy = False
                _log_waiting(error)
            self._wake.wait(_POLL_S) if tidy else self._stopping.wait(_RETRY_S)
            self._wake.clear()

    def _work(self) -> bool:
        """Do what is to be done. False when something has to be tried again."""
        with self._database.read() as db:
            if not store.any_open(db):
                return True
        with self._database.alone(_WORK) as mine:
            if not mine:
                return True
            with self._database.read() as db:
                waiting = store.open_deletions(db)
            carried_out = [self._carried_out(deletion) for deletion in waiting]
        return all(carried_out)

    def _carried_out(self, deletion: Deletion) -> bool:
        """Whether it could be done; one that could not keeps no other waiting."""
        try:
            self._carry_out(deletion)
        except _Stopped:
            raise
        except Exception as error:
            _log_waiting(error, deletion_id=deletion.id)
            self._note_waiting(deletion, error)
            return False
        return True

    def _carry_out(self, deletion: Deletion) -> None:
        while (step := deletion.step) is not None:
            if deletion.state is State.QUEUED:
                deletion = self._saved(replace(deletion, state=State.RUNNING))
            deletion = self._saved(_advanced(self._steps[step](deletion), step, self._clock()))

    def _saved(self, deletion: Deletion) -> Deletion:
        now = replace(deletion, updated_at_ms=self._clock())
        with self._database.write() as db:
            store.save(db, now)
        return now

    def _note_waiting(self, deletion: Deletion, error: Exception) -> None:
        """Tell those who ask why it does not go on, if the metadata DB takes it."""
        told = (
            "A store did not answer or did not manage it; it is tried again."
            if isinstance(error, _STORE_ERRORS)
            else "It is tried again; the log of the service has the details."
        )
        try:
            with self._database.read() as db:
                as_saved = store.find(db, deletion.workspace_id, deletion.id)
            if as_saved is not None:
                self._saved(replace(as_saved, error=told))
        except DBAPIError as failed:
            _log_waiting(failed, deletion_id=deletion.id)

    def _rest(self) -> None:
        if self._stopping.wait(_REST_S):
            raise _Stopped

    # The steps: each takes a deletion and gives it back as it is when the step is done.

    def _ship(self, deletion: Deletion) -> Deletion:
        while not self._shipper.wait_until_shipped(_SHIP_S, up_to=deletion.outbox_id):
            self._rest()
        return deletion

    def _remove_merges(self, deletion: Deletion) -> Deletion:
        self._archive.remove_merges(deletion)
        return deletion

    def _remove_events(self, deletion: Deletion) -> Deletion:
        """Until none is left: events that were received before may still have been on their way when the first were counted."""
        with self._database.read() as db:
            websites = store.found_so_far(db, deletion)
        self._archive.await_mutations("events")  # one that a crash left behind goes on by itself
        again = False
        while True:
            with self._shipper.paused():  # what it brought in between would be removed and not counted
                if not (found := self._archive.count(deletion, list(websites))):
                    break
                # Told before they go. After a crash, what is left of them is counted once more; it is no more than was told.
                websites |= {site: _told(websites[site], some, again) for site, some in found.items()}
                deletion = self._found(deletion, websites)
                self._archive.begin_removal(deletion, list(websites))
            self._archive.await_mutations("events")
            again = True
        deletion = self._found(deletion, websites)
        return replace(deletion, events_removed=deletion.events_found or 0)

    def _found(self, deletion: Deletion, websites: Mapping[WebsiteId, Found | None]) -> Deletion:
        found = {website_id: some for website_id, some in websites.items() if some is not None}
        now = replace(deletion, events_found=sum(some.events for some in found.values()))
        with self._database.write() as db:
            store.save(db, now)
            store.save_found(db, now, found)
        return now

    def _rebuild_lists(self, deletion: Deletion) -> Deletion:
        with self._database.read() as db:
            touched = [website_id for website_id, found in store.found_so_far(db, deletion).items() if found is not None]
        if touched:
            with self._shipper.paused():  # what came in between would be summed up twice, or not at all
                self._archive.rebuild_catalogue(touched)
        return deletion

    def _clear_keys(self, deletion: Deletion) -> Deletion:
        """A pass over the primary key: what is found is cleared, and how far the pass is saved, in one transaction."""
        tag = scope_tag(deletion.scope_id)
        while deletion.keys_read < deletion.key_id:
            if self._stopping.is_set():
                raise _Stopped
            found: list[int] = []
            read = deletion.key_id
            with self._database.read() as db:
                for start in range(0, len(deletion.visitor_ids), _IDS_AT_ONCE):
                    some = deletion.visitor_ids[start : start + _IDS_AT_ONCE]
                    ids, read = events_store.keys_of_visitors(db, tag, some, deletion.keys_read, deletion.key_id, _KEYS_AT_ONCE)
                    found += ids
            now = replace(deletion, keys_read=read, keys_cleared=deletion.keys_cleared + len(found), updated_at_ms=self._clock())
            with self._database.write() as db:
                events_store.clear_keys(db, found)
                store.save(db, now)
            deletion = now
        return deletion


def _advanced(deletion: Deletion, done: Step, now_ms: int) -> Deletion:
    """A deletion after a step. With the last one it forgets whom it was about."""
    steps = STEPS[deletion.target]
    place = steps.index(done) + 1
    if place < len(steps):
        return replace(deletion, step=steps[place], error=None)
    return replace(deletion, state=State.DONE, step=None, error=None, visitor_id=None, user_id=None, visitor_ids=(), finished_at_ms=now_ms)


def _told(before: Found | None, some: Found, again: bool) -> Found:
    """What is known of a website after a count. again: what was counted before is gone, so that this is more."""
    if before is None:
        return some
    return before.and_more(some) if again else before.or_all_of(some)


def _log_waiting(error: Exception, **about: str) -> None:
    """Without the message of a store: it may quote whom the deletion is about."""
    log.warning("deletion_waits", reason=type(error).__name__, exc_info=None if isinstance(error, _STORE_ERRORS) else error, **about)
