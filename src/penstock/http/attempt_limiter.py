"""A limit on attempts, such as log-ins, so that secrets cannot be guessed."""

from threading import Lock

from penstock.base.errors import RateLimited, RatePolicy

_MAX_COUNTERS = 50_000


class AttemptLimiter:
    """At most `policy.quota` attempts per key and window. Each node counts for itself."""

    def __init__(self, policy: RatePolicy) -> None:
        self.policy = policy
        # key -> (attempts, end of the window in ms)
        self._counters: dict[tuple[str, ...], tuple[int, int]] = {}
        self._lock = Lock()

    def count(self, key: tuple[str, ...], now_ms: int) -> None:
        """Count an attempt; call it before the work. `RateLimited` when the quota is used up."""
        with self._lock:
            attempts, ends_at_ms = self._counters.get(key, (0, 0))
            if ends_at_ms <= now_ms:
                self._make_room(now_ms)
                attempts, ends_at_ms = 0, now_ms + self.policy.window_s * 1000
            if attempts >= self.policy.quota:
                wait_s = -(-(ends_at_ms - now_ms) // 1000)
                raise RateLimited(
                    f"Too many attempts. Try again in {wait_s} seconds.",
                    retry_after_s=wait_s,
                    policy=self.policy,
                )
            self._counters[key] = (attempts + 1, ends_at_ms)

    def forget(self, key: tuple[str, ...]) -> None:
        """Reset the counter after a successful attempt."""
        with self._lock:
            self._counters.pop(key, None)

    def forgive(self, key: tuple[str, ...]) -> None:
        """Take back one attempt, which was successful."""
        with self._lock:
            attempts, ends_at_ms = self._counters.get(key, (0, 0))
            if attempts > 1:
                self._counters[key] = (attempts - 1, ends_at_ms)
            else:
                self._counters.pop(key, None)

    def _make_room(self, now_ms: int) -> None:
        """Bound the number of keys, which clients choose: drop ended windows, then the oldest."""
        if len(self._counters) < _MAX_COUNTERS:
            return
        self._counters = {
            key: counter for key, counter in self._counters.items() if counter[1] > now_ms
        }
        while len(self._counters) > _MAX_COUNTERS // 2:
            del self._counters[next(iter(self._counters))]
