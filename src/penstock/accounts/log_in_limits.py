"""Limits on log-ins per account, per network, per account and network, and in total."""

from collections.abc import Callable
from dataclasses import replace

from penstock.base.clock import Clock
from penstock.base.errors import RatePolicy
from penstock.http.rate_limiter import RateLimiter

_GUESSES = RatePolicy("login", quota=10, window_s=300)
"""Limit on failed attempts for one email address from one network."""
_GUESSES_OF_ACCOUNT = RatePolicy("login_account", quota=50, window_s=300)
"""Limit on failed attempts for one email address from all networks."""
_GUESSES_OF_NETWORK = RatePolicy("login_network", quota=20, window_s=300)
"""Limit on failed attempts from one network for all email addresses."""
_TOTAL_WINDOW_S = 300


class LogInLimits:
    """Counts attempts to log in, whether or not the email address has an account."""

    def __init__(self, total_failures: int, share: Callable[[int], int], clock: Clock) -> None:
        """total_failures: maximum number of failed attempts in five minutes, over all networks and
        users. share: returns this node's share of a limit.
        """

        def limiter(policy: RatePolicy) -> RateLimiter:
            return RateLimiter(replace(policy, quota=share(policy.quota)), clock)

        self._guesses = limiter(_GUESSES)
        self._guesses_of_account = limiter(_GUESSES_OF_ACCOUNT)
        self._guesses_of_network = limiter(_GUESSES_OF_NETWORK)
        self._guesses_in_total = limiter(RatePolicy("login_all", total_failures, _TOTAL_WINDOW_S))

    def count_own(self, email: str, network: str) -> None:
        """Count an attempt against its network's limits, before any work on it. Raises
        `RateLimited`.
        """
        self._guesses.count((email, network))
        self._guesses_of_network.count((network,))

    def count_shared(self, email: str) -> None:
        """Count an attempt against the limits that all networks share. Raises `RateLimited`.

        Call it after `count_own`, so that no single network exhausts the shared limit.
        """
        self._guesses_of_account.count((email,))
        self._guesses_in_total.count(())

    def forgive_own(self, email: str, network: str) -> None:
        """Undo the count of an attempt that succeeded or was never made."""
        self._guesses.forgive((email, network))
        self._guesses_of_network.forgive((network,))

    def forgive_shared(self, email: str) -> None:
        """Like `forgive_own`, for an attempt that also counted against the shared limits."""
        self._guesses_of_account.forgive((email,))
        self._guesses_in_total.forgive(())

    def forget(self, email: str, network: str) -> None:
        """Clear a user's earlier attempts from this network after a successful log-in."""
        self._guesses.forget((email, network))
