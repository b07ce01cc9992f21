"""The intake. Requests that arrive together share one commit, and get their responses after it."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TypeGuard, cast

from sqlalchemy import Connection

from penstock.base.clock import Clock
from penstock.base.errors import (
    ConcurrentUpdate,
    PenstockError,
    StoreConflict,
    StoreUnavailable,
    Unavailable,
)
from penstock.base.metrics import counter, histogram
from penstock.base.worker import Backoff, Worker
from penstock.events import store
from penstock.events.batch_order import VisitorTimes
from penstock.events.device_clock import KNOWN_FOR_MS
from penstock.events.model import NewEvent, Receipt, Refusal, Rejected, Replay
from penstock.events.property_keys import PropertyKeys
from penstock.events.quarantine.model import QuarantineLimits
from penstock.events.quota import DailyQuota
from penstock.events.repeats.earlier.mover import EarlierKeyMover
from penstock.events.repeats.event_keys import EventKeys
from penstock.events.repeats.expired_keys import ExpiredKeys
from penstock.events.transaction import Item, Outcome, store_items
from penstock.identity.model import Claim, Resolution, Trust
from penstock.metadb.database import Database

MAX_WAITING = 20_000
"""Maximum number of events that wait for a commit: a few seconds' worth. Events without a key may
fill only half of it, so that strangers leave room for backends.
"""

_COMMIT_S = histogram(
    "penstock_intake_commit_seconds", "Duration of a commit of events, including repeats."
)
_COMMIT_EVENTS = histogram(
    "penstock_intake_commit_events",
    "Events and identify calls in one commit.",
    buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 20_000),
)
_ITEMS = counter(
    "penstock_intake_items", "Events and identify calls that left the intake.", ["outcome"]
)
_STORED, _FAILED = _ITEMS.labels("stored"), _ITEMS.labels("failed")

_BATCH_EVENTS = 2_000
_QUIET_TURNS = 3
_GATHER_S = 0.02
_TRIES = 6
_TRY_FOR_S = 5.0  # Do not retry a commit after this time, in seconds.
_FORGET_AFTER_S, _FORGET_EVERY_S = 60, 3600
_PROBE = Backoff(first_s=0.5, longest_s=5.0)


@dataclass(slots=True)
class _Submission:
    """The items of one caller, and the future on which the caller waits."""

    items: Sequence[Item]
    done: asyncio.Future[list[Outcome]]


class Intake:
    """The single entry point for events from every source.

    It uses group commit: one transaction at a time, for all items that arrived since the last one.

    Submissions gather on the event loop. When the last commit is done, and a few turns of the loop
    have brought no new submission, they are handed to the writer, which has its own thread. Handing
    over earlier would split the commit, and the loop and the writer would compete for the
    interpreter lock. Even a busy loop hands over within `_GATHER_S`.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        on_stored: Callable[[], None],
        event_keys: EventKeys,
        *,
        daily_events: int,
        property_keys: int,
        quarantine: QuarantineLimits,
    ) -> None:
        """Create an intake, which accepts events while `running`.

        on_stored: called after each commit, in the writer's thread; wakes the shipper.
        event_keys: recognise repeats; only the intake's writer uses them.
        daily_events: daily quota of public events for each website.
        property_keys: maximum number of different property keys for each website.
        """
        self.quota = DailyQuota(database, daily_events, clock)
        self._database, self._clock, self._on_stored = database, clock, on_stored
        self._event_keys = event_keys
        self._property_keys, self._quarantine = PropertyKeys(property_keys), quarantine
        self._loop: asyncio.AbstractEventLoop | None = None
        # Only the event loop uses the next four attributes.
        self._open = False
        self._gathered: list[_Submission] = []
        self._waiting = 0  # number of events that wait for a commit
        self._busy = False  # whether a commit is running or about to start
        self._hand_overs: SimpleQueue[list[_Submission]] = SimpleQueue()
        # Only the writer uses the next four attributes.
        self._store_failed = False
        self._visitor_times = VisitorTimes()
        self._last_id_ms: int | None = None
        self._track_split_ms = 0
        # Each hand-over is tried immediately, so that callers get a response even while the store
        # is down. In between, the writer probes the store. A node that is not ready receives no
        # requests, so nothing else would show that the store is back.
        self._writer = Worker(
            "intake",
            self._write,
            clock,
            last_step=self._write,
            backoff=_PROBE,
            retry_on_wake=True,
        )
        self._expired_keys = ExpiredKeys(database, event_keys)
        self.workers = [
            self._writer,
            Worker(
                "dedupe_key_cleanup",
                self._forget_some,
                clock,
                period_s=_FORGET_EVERY_S,
                first_after_s=_FORGET_AFTER_S,
            ),
            EarlierKeyMover(database, clock, event_keys).worker,
        ]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Accept events during the context. On exit, refuses new events and commits submitted
        ones.
        """
        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            for worker in self.workers:
                await stack.enter_async_context(worker.running())
            self._open = True
            try:
                yield
            finally:
                self._open = False
                self._hand_over()

    async def submit(self, events: Sequence[NewEvent]) -> list[Receipt | Rejected]:
        """Store events durably. All events of one call share a transaction.

        Returns results in the order of the events.

        Call this on the event loop. Raises `RateLimited` if a website has used its quota,
        `Unavailable` if too many events are waiting or the service is stopping, and
        `StoreUnavailable` if the store does not respond; a running commit may have succeeded.
        """
        return cast("list[Receipt | Rejected]", await self._stored(events))

    async def submit_own(self, event: NewEvent) -> Receipt:
        """Like `submit`, but for an event whose property keys were chosen by Penstock or a
        provider.
        """
        [receipt] = await self.submit([event._replace(has_free_keys=False)])
        assert isinstance(receipt, Receipt)
        return receipt

    def submit_from_thread(self, items: Sequence[NewEvent | Claim]) -> list[Outcome]:
        """Like `store`, but for threads without an event loop. Blocks."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(self.store(items), self._loop).result()

    async def identify(self, claim: Claim) -> Resolution:
        """Durably link or merge the visitors and users of a claim.

        Raises the same errors as `submit`.
        """
        [resolution] = await self._stored([claim])
        return cast("Resolution", resolution)

    async def store(self, items: Sequence[NewEvent | Claim | Refusal]) -> list[Outcome]:
        """Store the items of one body in one transaction and in order.

        Raises the same errors as `submit`.
        """
        return await self._stored(items)

    async def replay(self, replays: Sequence[Replay]) -> list[Receipt | Rejected | None]:
        """Store quarantined events and remove their entries. Returns None for each missing entry.

        Raises the same errors as `submit`.
        """
        return cast("list[Receipt | Rejected | None]", await self._stored(replays))

    def waiting(self) -> int:
        """Return the number of events and identify calls waiting for their commit."""
        return self._waiting

    def _forget_some(self) -> float | None:
        """Delete some expired keys of events and old device clocks.

        Returns the seconds until the next call.
        """
        now_ms = self._clock()
        with self._database.write() as connection:
            has_clocks = store.forget_device_clocks(connection, now_ms - KNOWN_FOR_MS)
        pause_s = self._expired_keys.remove_some(now_ms)
        return 0.0 if has_clocks else min(pause_s, _FORGET_EVERY_S)

    # Methods that run on the event loop

    def _stored(self, items: Sequence[Item]) -> asyncio.Future[list[Outcome]]:
        if not self._open:
            raise Unavailable(
                "The service is stopping; try again in a moment.", code="stopping", retry_after_s=1
            )
        # All items of a submission came in one request, so the first item is representative.
        limit = MAX_WAITING // 2 if items and _is_public(items[0]) else MAX_WAITING
        if self._waiting + len(items) > limit:
            raise Unavailable(
                f"More than {limit:,} events wait to be stored; try again later.",
                code="overloaded",
                retry_after_s=1,
            )
        self.quota.require(items)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[Outcome]] = loop.create_future()
        self._waiting += len(items)
        self._gathered.append(_Submission(items, done))
        if not self._busy:
            self._gather(loop)
        return done

    def _gather(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hand submissions over to the writer once no more arrive."""
        self._busy = True
        loop.call_soon(self._wait_for_more, loop, loop.time() + _GATHER_S, 0, 0)

    # This is a method, because a nested function that schedules itself is a reference cycle, which
    # only the garbage collector frees, and a collection pauses the process.
    def _wait_for_more(
        self, loop: asyncio.AbstractEventLoop, until_s: float, seen: int, quiet_turns: int
    ) -> None:
        gathered = len(self._gathered)
        quiet_turns = 0 if gathered > seen else quiet_turns + 1
        if quiet_turns < _QUIET_TURNS and loop.time() < until_s:
            loop.call_soon(self._wait_for_more, loop, until_s, gathered, quiet_turns)
        else:
            self._hand_over()

    def _hand_over(self) -> None:
        self._hand_overs.put(self._gathered)
        self._gathered = []
        self._writer.wake()

    def _continue(self) -> None:
        self._busy = False
        if self._gathered:
            assert self._loop is not None
            self._gather(self._loop)

    def _answer(
        self, batch: Sequence[_Submission], outcomes: Sequence[list[Outcome] | Exception]
    ) -> None:
        stored = failed = 0
        for submission, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Exception):
                failed += len(submission.items)
            else:
                stored += len(submission.items)
            if submission.done.done():  # The client disconnected. Its events are stored anyway.
                continue
            if isinstance(outcome, Exception):
                submission.done.set_exception(outcome)
            else:
                submission.done.set_result(outcome)
        self._waiting -= stored + failed
        _STORED.inc(stored)
        _FAILED.inc(failed)

    # Methods that run in the writer's thread

    def _write(self) -> None:
        """Commit everything that was handed over.

        Raises the store's error, if any, after all callers have their results.
        """
        failure: StoreUnavailable | None = None
        probe = self._store_failed
        while True:
            try:
                submissions = self._hand_overs.get_nowait()
            except Empty:
                break
            failure, probe = self._commit_all(submissions), False
        if probe:
            with self._database.write():
                pass
        self._store_failed = failure is not None
        if failure is not None:
            raise failure

    def _commit_all(self, submissions: Sequence[_Submission]) -> StoreUnavailable | None:
        """Commit one hand-over and answer its callers. Returns the store's error, if any."""
        assert self._loop is not None
        away: StoreUnavailable | None = None
        try:
            for batch in _batches(submissions):
                if away is None:
                    outcomes = self._commit([submission.items for submission in batch])
                    away = next(filter(_is_away, outcomes), None)
                else:  # An attempt may take a whole timeout, so do not try each batch.
                    outcomes = [away] * len(batch)
                self._loop.call_soon_threadsafe(self._answer, batch, outcomes)
                if any(isinstance(outcome, list) for outcome in outcomes):
                    self._on_stored()
        finally:
            self._loop.call_soon_threadsafe(self._continue)
        return away

    def _commit(self, submissions: list[Sequence[Item]]) -> list[list[Outcome] | Exception]:
        """Return the outcome of each submission. Errors are returned as outcomes, not raised."""
        until_s = time.monotonic() + _TRY_FOR_S
        try:
            outcomes = self._commit_together([item for items in submissions for item in items])
        except BaseException as error:
            away = isinstance(error, StoreUnavailable) and (
                not isinstance(error, ConcurrentUpdate) or time.monotonic() > until_s
            )
            if len(submissions) > 1 and not away:
                return self._commit_each(submissions)
            return [_for_caller(error)] * len(submissions)
        shares = iter(outcomes)
        return [[next(shares) for _ in items] for items in submissions]

    def _commit_each(
        self, submissions: Iterable[Sequence[Item]]
    ) -> list[list[Outcome] | Exception]:
        """Commit submissions one by one, so that a faulty submission does not make the others
        fail.
        """
        outcomes: list[list[Outcome] | Exception] = []
        away: StoreUnavailable | None = None
        for items in submissions:
            outcome = self._commit([items])[0] if away is None else away
            if _is_away(outcome):
                away = outcome  # Another attempt may take a whole timeout.
            outcomes.append(outcome)
        return outcomes

    def _commit_together(self, items: Sequence[Item]) -> list[Outcome]:
        until_s = time.monotonic() + _TRY_FOR_S
        for tries_left in reversed(range(_TRIES)):
            try:
                self._event_keys.open()
                now_ms = self._clock()
                with _COMMIT_S.time(), self._database.write() as connection:
                    stored = store_items(
                        connection,
                        items,
                        now_ms,
                        self._next_id_ms(connection, now_ms),
                        self._event_keys,
                        self._property_keys,
                        self._visitor_times,
                        self._quarantine,
                        self._earlier_keys_until_ms(now_ms),
                    )
                    counts = self.quota.add(connection, items, stored.outcomes, now_ms)
                self.quota.note(counts, now_ms)
                _COMMIT_EVENTS.observe(len(items))
                self._event_keys.commit()
                self._property_keys.remember(stored.keys)
                self._visitor_times.remember(stored.times, now_ms)
                return stored.outcomes
            except (ConcurrentUpdate, StoreConflict):  # Another node changed the same rows.
                if not tries_left or time.monotonic() > until_s:
                    raise
                time.sleep(random.uniform(0, 0.02))
        raise AssertionError

    def _next_id_ms(self, connection: Connection, now_ms: int) -> int:
        """Return the time for a commit's event IDs. IDs increase even if the clock has been set
        back.
        """
        if self._last_id_ms is None:
            self._last_id_ms = store.last_id_ms(connection)
            self._track_split_ms = store.track_split_ms(connection)
        self._last_id_ms = max(now_ms, self._last_id_ms + 1)
        return self._last_id_ms

    def _earlier_keys_until_ms(self, now_ms: int) -> int:
        """Return when keyed and public posts last shared dedupe keys; 0 once those keys have
        expired.
        """
        split_ms = self._track_split_ms
        return 0 if self._event_keys.is_expired(split_ms, now_ms) else split_ms


def _is_public(item: Item) -> bool:
    """Whether an item came without a key, so that anyone may have sent it."""
    match item:
        case NewEvent():
            return item.is_public
        case Claim():
            return item.trust <= Trust.PUBLIC
        case Refusal():
            return item.entry.is_public
        case Replay():
            return False


def _is_away(outcome: object) -> TypeGuard[StoreUnavailable]:
    """Whether the store is down, as opposed to a conflict with another node."""
    return isinstance(outcome, StoreUnavailable) and not isinstance(outcome, ConcurrentUpdate)


def _batches(submissions: Sequence[_Submission]) -> Iterator[list[_Submission]]:
    """Group whole submissions into batches of at most `_BATCH_EVENTS` events.

    A larger submission is a batch by itself.
    """
    batch: list[_Submission] = []
    events = 0
    for submission in submissions:
        if batch and events + len(submission.items) > _BATCH_EVENTS:
            yield batch
            batch, events = [], 0
        batch.append(submission)
        events += len(submission.items)
    if batch:
        yield batch


def _for_caller(error: BaseException) -> Exception:
    if isinstance(error, PenstockError):
        return error
    if isinstance(error, StoreConflict):
        return ConcurrentUpdate(reason=str(error))
    return error if isinstance(error, Exception) else RuntimeError(f"intake: {error!r}")
