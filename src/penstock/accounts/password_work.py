"""Password hashes, a few at a time: each takes 50 ms of a core and 64 MB."""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from penstock.base.errors import RateLimited, RatePolicy
from penstock.base.networks import network_of

T = TypeVar("T")

_AT_ONCE = 2
_MOST_OF_A_NETWORK = 8
_MOST_IN_ALL = 40
_POLICY = RatePolicy("passwords", quota=_MOST_OF_A_NETWORK, window_s=1)


class PasswordWork:
    """Runs work that hashes passwords in threads, in the order of arrival.

    The queue is bounded, in all and for each network, so that a flood of log-ins delays others by
    a second at most, and one from a single network hardly at all.
    """

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(_AT_ONCE)
        self._waiting: Counter[str] = Counter()  # by network; only the event loop touches it

    async def run(self, work: Callable[[], T], address: str) -> T:
        """The result of the work. address: of the client. `RateLimited` when the queue is full."""
        network = network_of(address) or address
        if self._waiting[network] >= _MOST_OF_A_NETWORK or self._waiting.total() >= _MOST_IN_ALL:
            raise RateLimited(
                "Too many log-ins at this moment. Try again in a second.",
                retry_after_s=1,
                policy=_POLICY,
            )
        self._waiting[network] += 1
        try:
            return await to_thread.run_sync(work, limiter=self._limiter)
        finally:
            self._waiting[network] -= 1
            if not self._waiting[network]:
                del self._waiting[network]
