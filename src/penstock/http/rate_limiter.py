"""Rate limits for requests, events and log-ins."""

from collections.abc import Hashable
from threading import Lock
from typing import NamedTuple

from penstock.base.clock import Clock
from penstock.base.errors import RateLimited, RatePolicy

_MAX_COUNTERS = 50_000


class Quota(NamedTuple):
    """A key's remaining quota, and the seconds until its window ends."""

    remaining: int
    reset_s: int


class RateLimiter:
    """Allows `policy.quota` attempts per key and window. Each node counts separately.

    Corrections to the time of day do not change the length of a window.
    """

    def __init__(self, policy: RatePolicy, clock: Clock) -> None:
        self.policy, self._clock = policy, clock
        # key -> (count, end of the window in elapsed ms), ordered by end
        self._counters: dict[Hashable, tuple[int, int]] = {}
        self._lock = Lock()

    def count(self, key: Hashable, *, amount: int = 1) -> Quota:
        """Count an attempt; call this before the work. Raises `RateLimited` if no quota is left.

        A rejected attempt is not counted. amount: number to count. It is accepted as a whole if any
        quota is left, so even an amount above the quota can pass.
        """
        now_ms = self._clock.elapsed_ms()
        with self._lock:
            count, ends_at_ms = self._counters.get(key, (0, now_ms))
            if ends_at_ms <= now_ms:
                self._counters.pop(key, None)
                self._make_room(now_ms)
                count, ends_at_ms = 0, now_ms + self.policy.window_s * 1000
            reset_s = -(-(ends_at_ms - now_ms) // 1000)
            remaining = self.policy.quota - count
            if remaining <= 0:
                raise RateLimited(
                    f"Too many {self.policy.counted}. Try again in {reset_s} seconds.",
                    retry_after_s=reset_s,
                    policy=self.policy,
                )
            self._counters[key] = (count + amount, ends_at_ms)
        return Quota(max(0, remaining - amount), reset_s)

    def forget(self, key: Hashable) -> None:
        """Reset the counter, for example after a successful attempt."""
        with self._lock:
            self._counters.pop(key, None)

    def forgive(self, key: Hashable) -> None:
        """Stop counting one attempt that succeeded or never happened."""
        with self._lock:
            count, ends_at_ms = self._counters.get(key, (0, 0))
            if count > 1:
                self._counters[key] = (count - 1, ends_at_ms)
            else:
                self._counters.pop(key, None)

    def _make_room(self, now_ms: int) -> None:
        """Limit the number of keys, which clients choose. Drops ended windows first, then the
        oldest.

        Drops at most two for each new key, so that no caller has to do much work.
        """
        for _ in range(2):
            oldest = next(iter(self._counters), None)
            if oldest is None:
                return
            if self._counters[oldest][1] <= now_ms or len(self._counters) >= _MAX_COUNTERS:
                del self._counters[oldest]
