"""Counting log-in attempts, so that a password cannot be guessed by trying."""

from threading import Lock

from penstock.base.errors import RateLimited, RatePolicy

_MOST_COUNTERS = 50_000


class Attempts:
    """At most `policy.quota` attempts per key in each window. Kept in this process: every node counts for itself."""

    def __init__(self, policy: RatePolicy) -> None:
        self.policy = policy
        self._counters: dict[tuple[str, ...], tuple[int, int]] = {}  # key -> (attempts, end of the window in ms)
        self._lock = Lock()

    def count(self, key: tuple[str, ...], now_ms: int) -> None:
        """Count one attempt before it is made; `RateLimited` when the quota is used up."""
        with self._lock:
            made, ends_at_ms = self._counters.get(key, (0, 0))
            if ends_at_ms <= now_ms:
                self._make_room(now_ms)
                made, ends_at_ms = 0, now_ms + self.policy.window_s * 1000
            if made >= self.policy.quota:
                wait_s = -(-(ends_at_ms - now_ms) // 1000)
                raise RateLimited(f"Too many attempts; try again in {wait_s} seconds.", retry_after_s=wait_s, policy=self.policy)
            self._counters[key] = (made + 1, ends_at_ms)

    def forget(self, key: tuple[str, ...]) -> None:
        """After a success: the next attempts start anew."""
        with self._lock:
            self._counters.pop(key, None)

    def _make_room(self, now_ms: int) -> None:
        """Keys are the client's to choose, so their number is bounded: what has ended goes first, then what is oldest."""
        if len(self._counters) < _MOST_COUNTERS:
            return
        self._counters = {key: counter for key, counter in self._counters.items() if counter[1] > now_ms}
        while len(self._counters) > _MOST_COUNTERS // 2:
            del self._counters[next(iter(self._counters))]
