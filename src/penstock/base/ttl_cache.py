"""A cache for records from the metadata DB, used in hot paths."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from time import monotonic
from typing import Generic, TypeVar

from anyio import to_thread

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Caches values by key, each for `ttl_s` seconds. New entries evict expired ones.

    After a change on this node, call `forget` between the commit and the response.
    """

    def __init__(self, ttl_s: float) -> None:
        self._ttl_s = ttl_s
        self._entries: OrderedDict[K, tuple[V, float]] = OrderedDict()  # oldest entries first
        self._reads: dict[tuple[K, int], asyncio.Future[V | None]] = {}
        self._changes = 0
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        """Return the cached value if it is valid. Never blocks."""
        entry = self._entries.get(key)
        return entry[0] if entry is not None and entry[1] > monotonic() else None

    def load(self, key: K, read: Callable[[], V | None]) -> V | None:
        """Return the cached value, or else the value that `read` returns. None is not cached."""
        if (value := self.get(key)) is not None:
            return value
        changes, read_at_s = self._changes, monotonic()
        value = read()
        with self._lock:
            # If anything changed during the read, the value may be outdated, so do not cache it.
            if value is not None and changes == self._changes:
                self._entries[key] = (value, read_at_s + self._ttl_s)
                self._entries.move_to_end(key)
            self._drop_ended()
        return value

    def _drop_ended(self) -> None:
        """Evict at most two expired entries, so that no caller has to do much work."""
        for _ in range(2):
            oldest = next(iter(self._entries.values()), None)
            if oldest is None or oldest[1] > monotonic():
                return
            self._entries.popitem(last=False)

    async def fetch(self, key: K, read: Callable[[], V | None]) -> V | None:
        """Like `load`, but reads in a thread. Concurrent misses of a key share one read."""
        read_key = (key, self._changes)
        pending = self._reads.get(read_key)
        if pending is None:
            pending = self._reads[read_key] = asyncio.ensure_future(
                to_thread.run_sync(self.load, key, read)
            )
            pending.add_done_callback(lambda _: self._reads.pop(read_key))
        return await asyncio.shield(pending)

    def forget(self, key: K) -> None:
        with self._lock:
            self._changes += 1
            self._entries.pop(key, None)

    def clear(self) -> None:
        """Forget all entries."""
        with self._lock:
            self._changes += 1
            self._entries.clear()
