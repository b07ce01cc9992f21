"""What was read from the metadata DB a moment ago, kept in the process for the hot path."""

import asyncio
from collections.abc import Callable, Hashable
from threading import Lock
from time import monotonic
from typing import Generic, TypeVar

from anyio import to_thread

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Values by key, each believed for `ttl_s` seconds: the longest that a change made by another node stays unseen here.

    A change made by this node is seen at once: call `forget` after it is committed, before it is answered.
    """

    def __init__(self, ttl_s: float) -> None:
        self._ttl_s = ttl_s
        self._kept: dict[K, tuple[V, float]] = {}
        self._under_way: dict[tuple[K, int], asyncio.Future[V | None]] = {}
        self._changes = 0
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        """The value if it is fresh. Never blocks."""
        kept = self._kept.get(key)
        return kept[0] if kept is not None and kept[1] > monotonic() else None

    def load(self, key: K, read: Callable[[], V | None]) -> V | None:
        """The value, read when it is not fresh. What is not there is not remembered."""
        if (fresh := self.get(key)) is not None:
            return fresh
        changes, read_at_s = self._changes, monotonic()
        value = read()
        with self._lock:
            # A change while we read may have come after our reading: such a value serves this call only.
            if value is not None and changes == self._changes:
                self._kept[key] = (value, read_at_s + self._ttl_s)
        return value

    async def fetch(self, key: K, read: Callable[[], V | None]) -> V | None:
        """As `load`, off the event loop. Many requests may miss the same key at once: those since the last change share one reading."""
        place = (key, self._changes)
        reading = self._under_way.get(place)
        if reading is None:
            reading = self._under_way[place] = asyncio.ensure_future(to_thread.run_sync(self.load, key, read))
            reading.add_done_callback(lambda _: self._under_way.pop(place))
        return await asyncio.shield(reading)

    def forget(self, key: K) -> None:
        with self._lock:
            self._changes += 1
            self._kept.pop(key, None)
