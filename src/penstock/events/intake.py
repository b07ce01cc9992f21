"""The intake: what comes in at about the same time is committed together, and each gets its answer after the commit."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import cast

import structlog
from anyio import to_thread
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError

from penstock.base.clock import Clock
from penstock.base.errors import PenstockError, Unavailable
from penstock.events import store
from penstock.events.model import NewEvent, Receipt
from penstock.events.transaction import Item, Outcome, store_items
from penstock.identity.model import Claim, Resolution
from penstock.identity.service import Contended
from penstock.metadb.database import Database
from penstock.settings import DAY_S

log = structlog.get_logger()

MOST_WAITING = 20_000
"""Events that may wait for a commit, a few seconds' worth; more are sent away."""

_MOST_TOGETHER = 2_000
_QUIET_TURNS = 3
_GATHER_S = 0.02
_TRIES = 6
_FORGET_EVERY_S = 3600
_CONTENTION_STATES = ("40001", "40P01")  # PostgreSQL: serialization failure, deadlock


@dataclass(slots=True)
class _Submission:
    """What one caller submitted and where it waits for the outcome."""

    items: Sequence[Item]
    done: asyncio.Future[list[Outcome]]


class Intake:
    """The one way in for events of every source. Group commit: one transaction at a time, for everything that arrived since the last one.

    What callers submit gathers on the event loop. Once the last commit is done and the loop has had a few turns without anything new, what
    gathered goes to the writer, a thread of its own. To hand over earlier costs more than it gains: loop and writer then fight over the
    interpreter lock, each over a half of what could be one commit. A loop that never has such a turn hands over after `_GATHER_S`.
    """

    def __init__(self, database: Database, clock: Clock, on_stored: Callable[[], None], dedupe_days: int | None = None) -> None:
        """on_stored: called after each commit, from the writer's thread; wakes the shipper. dedupe_days: None keeps keys for ever."""
        self._database, self._clock, self._on_stored, self._dedupe_days = database, clock, on_stored, dedupe_days
        self._gathered: list[_Submission] = []  # this and the next two: only the event loop touches them
        self._waiting = 0  # events
        self._busy = False  # a commit is under way, or about to be
        self._line: SimpleQueue[list[_Submission] | None] = SimpleQueue()  # to the writer; None ends it
        self._open = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the service runs. At the end: take nothing more, commit what was taken."""
        writer = Thread(target=self._write_until_stopped, args=(asyncio.get_running_loop(),), name="intake")
        writer.start()
        forgetting = asyncio.create_task(self._forget_now_and_then(), name="dedupe keys")
        self._open = True
        try:
            yield
        finally:
            forgetting.cancel()
            self._open = False
            self._hand_over()
            self._line.put(None)
            await to_thread.run_sync(writer.join)

    async def submit(self, events: Sequence[NewEvent]) -> list[Receipt]:
        """Store events durably, all of one call in one transaction. Receipts in the order of the events.

        Call it on the event loop; from a worker thread through `anyio.from_thread.run(intake.submit, events)`.
        `Unavailable` when too many events wait, when the store does not answer or when the service is stopping: nothing was kept then.
        """
        return cast("list[Receipt]", await self._stored(events))

    async def identify(self, claim: Claim) -> Resolution:
        """Bind or merge durably what a claim ties together. Errors as `submit`."""
        [resolution] = await self._stored([claim])
        return cast("Resolution", resolution)

    def forget_old_keys(self) -> None:
        """Delete the dedupe keys that are older than they need be. Blocks."""
        if self._dedupe_days is None:
            return
        before_ms = self._clock() - self._dedupe_days * DAY_S * 1000
        more = True
        while more:
            with self._database.write() as connection:
                more = store.forget_keys(connection, before_ms)

    async def _forget_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_FORGET_EVERY_S)
            try:
                await asyncio.to_thread(self.forget_old_keys)
            except DBAPIError as error:
                log.warning("dedupe_keys_not_forgotten", error=str(error.orig))

    def _stored(self, items: Sequence[Item]) -> asyncio.Future[list[Outcome]]:
        if not self._open:
            raise Unavailable("The service is stopping; send again in a moment.", code="stopping", retry_after_s=1)
        if self._waiting + len(items) > MOST_WAITING:
            raise Unavailable("More events are waiting than the store can take; send again later.", code="overloaded", retry_after_s=1)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[Outcome]] = loop.create_future()
        self._waiting += len(items)
        self._gathered.append(_Submission(items, done))
        if not self._busy:
            self._gather(loop)
        return done

    def _gather(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hand over what gathered, once nothing more comes in."""
        self._busy = True
        until_s = loop.time() + _GATHER_S

        def wait_for_more(seen: int, quiet_turns: int) -> None:
            gathered = len(self._gathered)
            quiet_turns = 0 if gathered > seen else quiet_turns + 1
            if quiet_turns < _QUIET_TURNS and loop.time() < until_s:
                loop.call_soon(wait_for_more, gathered, quiet_turns)
            else:
                self._hand_over()

        loop.call_soon(wait_for_more, 0, 0)

    def _hand_over(self) -> None:
        self._line.put(self._gathered)
        self._gathered = []

    def _write_until_stopped(self, loop: asyncio.AbstractEventLoop) -> None:
        while (submissions := self._line.get()) is not None:
            for batch in _batches(submissions):
                outcomes = self._commit([submission.items for submission in batch])
                loop.call_soon_threadsafe(self._answer, batch, outcomes)
            loop.call_soon_threadsafe(self._go_on, loop)

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        self._busy = False
        if self._gathered:
            self._gather(loop)

    def _answer(self, batch: Sequence[_Submission], outcomes: Sequence[list[Outcome] | Exception]) -> None:
        for submission, outcome in zip(batch, outcomes, strict=True):
            self._waiting -= len(submission.items)
            if submission.done.done():  # the client went away; its events are stored all the same
                continue
            if isinstance(outcome, Exception):
                submission.done.set_exception(outcome)
            else:
                submission.done.set_result(outcome)

    def _commit(self, submissions: list[Sequence[Item]]) -> list[list[Outcome] | Exception]:
        """Runs in the writer's thread. Raises nothing: an error is an outcome."""
        try:
            outcomes = self._commit_together([item for items in submissions for item in items])
        except Exception as error:
            if len(submissions) > 1 and not _is_away(error):
                # One submission that the store cannot take must not fail its neighbours.
                return [self._commit([items])[0] for items in submissions]
            return [_told(error)] * len(submissions)
        self._on_stored()
        shares = iter(outcomes)
        return [[next(shares) for _ in items] for items in submissions]

    def _commit_together(self, items: Sequence[Item]) -> list[Outcome]:
        for tries_left in reversed(range(_TRIES)):
            try:
                with self._database.write() as connection:
                    return store_items(connection, items, self._clock())
            except (Contended, DBAPIError) as error:
                if not _is_contention(error) or not tries_left:
                    raise
                time.sleep(random.uniform(0, 0.02))
        raise AssertionError


def _batches(submissions: Sequence[_Submission]) -> Iterator[list[_Submission]]:
    """What is committed together: whole submissions, at most `_MOST_TOGETHER` events unless one submission has more."""
    batch: list[_Submission] = []
    events = 0
    for submission in submissions:
        if batch and events + len(submission.items) > _MOST_TOGETHER:
            yield batch
            batch, events = [], 0
        batch.append(submission)
        events += len(submission.items)
    if batch:
        yield batch


def _is_contention(error: Exception) -> bool:
    """Whether another node was in the way, so that trying again helps."""
    if isinstance(error, OperationalError):
        return getattr(error.orig, "sqlstate", None) in _CONTENTION_STATES
    return isinstance(error, Contended | IntegrityError)


def _is_away(error: Exception) -> bool:
    return isinstance(error, OperationalError | InterfaceError) and not _is_contention(error)


def _told(error: Exception) -> Exception:
    """The error as the caller gets it."""
    if isinstance(error, PenstockError):
        return error
    if _is_away(error) or _is_contention(error):
        log.warning("intake_failed", exc_info=error)
        return Unavailable("The store does not answer right now; nothing was kept, send again.", code="store_unavailable", retry_after_s=1)
    return error
