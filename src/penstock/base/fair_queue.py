"""A few slots for many callers: each key has its own queue, and the keys take turns.

The key is usually the workspace, so a workspace with many slow requests delays only itself. A full
queue rejects a caller at once instead of letting it wait in vain.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Event, Lock
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from penstock.base.errors import QueueFull

T = TypeVar("T")

_CHECK_S = 0.1  # seconds between calls of `check` by a waiting thread


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Limits of a queue. `slots` and `waiting` are totals over all keys.

    slots: maximum callers that run at once. waiting: maximum callers that wait for a slot.
    reserved_slots: slots that only a key without a slot may take, so that keys with several slots
    do not make a new key wait.
    """

    slots: int
    slots_per_key: int
    waiting: int
    waiting_per_key: int
    reserved_slots: int = 0


@dataclass(eq=False, slots=True)
class Turn:
    """A caller's turn in a queue. has_slot: whether it holds a slot. wake: called when it gets a
    slot. is_overdue: whether others may use its slot, see `FairQueue.give_up`.
    """

    key: Hashable
    wake: Callable[[], object]
    has_slot: bool = False
    has_left: bool = False
    is_overdue: bool = False


class FairQueue:
    """Slots that keys take turns to use. Serves threads and coroutines; every method is
    thread-safe.

    A free slot goes to the key whose turn it is, and to that key's oldest caller.
    """

    def __init__(
        self, noun: str, limits: QueueLimits, *, code: str = QueueFull.code, retry_after_s: int = 2
    ) -> None:
        """noun: plural noun for messages, such as `queries`. code: error code of `QueueFull`."""
        self.limits = limits
        self._noun, self._code, self._retry_after_s = noun, code, retry_after_s
        self._held: Counter[Hashable] = Counter()
        self._overdue = 0
        self._waiting: OrderedDict[Hashable, deque[Turn]] = OrderedDict()
        """Keys with waiting callers; the key whose turn is next comes first."""
        self._waiting_count = 0
        self._lock = Lock()

    def enter(self, key: Hashable, wake: Callable[[], object]) -> Turn:
        """Join the queue. If no slot is free, `wake` is called once the turn gets a slot.

        Pass every turn to `leave` in the end. wake: must not block. Raises `QueueFull` if too many
        callers are waiting.
        """
        turn = Turn(key, wake)
        with self._lock:
            own = self._waiting.get(key, ())
            # If a slot is free, this key may take it, because keys that wait already hold their
            # maximum.
            if not own and self._has_free_slot(key):
                self._give(turn)
                return turn
            self._refuse_if_full(key, len(own))
            self._waiting.setdefault(key, deque()).append(turn)
            self._waiting_count += 1
        return turn

    def leave(self, turn: Turn) -> None:
        """Return the slot, or stop waiting for one. Leaving again changes nothing."""
        with self._lock:
            if turn.has_left:
                return
            turn.has_left = True
            self._overdue -= turn.is_overdue
            if turn.has_slot:
                self._held[turn.key] -= 1
                if not self._held[turn.key]:
                    del self._held[turn.key]
                self._give_free_slots()
                return
            own = self._waiting[turn.key]
            own.remove(turn)
            self._waiting_count -= 1
            if not own:
                del self._waiting[turn.key]

    def give_up(self, turn: Turn) -> None:
        """Let other keys use a slot whose work has not ended in time.

        The slot still counts for its own key until `leave`, so that a key whose work never ends
        cannot take one slot after another.
        """
        with self._lock:
            turn.is_overdue = True
            self._overdue += 1
            self._give_free_slots()

    @contextmanager
    def slot(self, key: Hashable, check: Callable[[], object] = lambda: None) -> Iterator[Turn]:
        """Hold a slot during the context. The thread waits until a slot is free.

        The context does not leave a turn that was given up: whoever gave it up calls `leave` when
        its work has ended.

        check: called regularly during the wait; an exception that it raises ends the wait. Raises
        `QueueFull` if too many callers are waiting.
        """
        has_slot = Event()
        turn = self.enter(key, has_slot.set)
        try:
            check()
            while not turn.has_slot and not has_slot.wait(_CHECK_S):
                check()
            yield turn
        finally:
            if not turn.is_overdue:
                self.leave(turn)

    @asynccontextmanager
    async def slot_async(self, key: Hashable) -> AsyncIterator[None]:
        """Like `slot`, for a coroutine."""
        has_slot = asyncio.Event()
        loop = asyncio.get_running_loop()
        turn = self.enter(key, partial(loop.call_soon_threadsafe, has_slot.set))
        try:
            if not turn.has_slot:
                await has_slot.wait()
            yield
        finally:
            self.leave(turn)

    async def run(self, key: Hashable, call: Callable[..., T], *arguments: object) -> T:
        """Run a blocking call in a thread that holds a slot, and return its result.

        Raises `QueueFull` if too many callers are waiting.
        """
        async with self.slot_async(key):
            # Use a separate limiter, because the slots already limit the threads.
            return await to_thread.run_sync(partial(call, *arguments), limiter=CapacityLimiter(1))

    def _has_free_slot(self, key: Hashable) -> bool:
        free, own = self.limits.slots - self._held.total() + self._overdue, self._held[key]
        return own < self.limits.slots_per_key and free > (self.limits.reserved_slots if own else 0)

    def _give(self, turn: Turn) -> None:
        self._held[turn.key] += 1
        turn.has_slot = True

    def _give_free_slots(self) -> None:
        while waiting := next(
            (item for item in self._waiting.items() if self._has_free_slot(item[0])), None
        ):
            key, own = waiting
            del self._waiting[key]
            turn = own.popleft()
            self._waiting_count -= 1
            if own:
                self._waiting[key] = own  # the key's next turn comes after all other keys
            self._give(turn)
            turn.wake()

    def _refuse_if_full(self, key: Hashable, own_waiting: int) -> None:
        if own_waiting >= self.limits.waiting_per_key:
            unfinished = f"You have {self._held[key] + own_waiting:,} unfinished {self._noun}"
        elif self._waiting_count >= self.limits.waiting:
            count = self._held.total() + self._waiting_count
            unfinished = f"All callers together have {count:,} unfinished {self._noun}"
        else:
            return
        raise QueueFull(
            f"{unfinished}, which is the limit. Wait until some have ended, then try again.",
            code=self._code,
            retry_after_s=self._retry_after_s,
        )
