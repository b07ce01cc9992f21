"""The time of day that all nodes share: that of the server of the metadata DB.

Nodes compare times that other nodes have written, such as the receipt of an event with the request
of a deletion. The clocks of their machines can differ by seconds, so each node adds to its elapsed
time what the server's clock is ahead of it.
"""

from sqlalchemy import text

from penstock.base.clock import Clock
from penstock.metadb.database import Database

COMPARED_EVERY_S = 10.0
LARGE_DIFFERENCE_MS = 250
"""Difference from which a machine's clock counts as wrong."""
_SAMPLES = 5
_LEAST_MARGIN_MS = 20
_TIME = text("SELECT CAST(1000 * extract(epoch FROM clock_timestamp()) AS bigint)")


class DatabaseClock:
    """A clock that shows the time of PostgreSQL's server. Until the first comparison, and with
    SQLite, it shows the time of this machine.
    """

    margin_ms = 0
    """Upper bound in milliseconds of the difference between two nodes; 0 with SQLite."""

    def __init__(self, database: Database, own: Clock) -> None:
        """own: the clock of this machine."""
        self._database, self._own = database, own
        self._difference_ms: float | None = None

    def __call__(self) -> int:
        if self._difference_ms is None:
            return self._own()
        return round(self._own.elapsed_ms() + self._difference_ms)

    def elapsed_ms(self) -> int:
        return self._own.elapsed_ms()

    @property
    def ahead_ms(self) -> int:
        """Milliseconds that this machine's clock is ahead of the server's; negative if behind."""
        return self._own() - self()

    def compare(self) -> None:
        """Compare the clocks. The result is wrong by at most half of the shortest response time.

        Blocks; raises `StoreUnavailable`.
        """
        if self._database.is_sqlite:
            return
        samples = list[tuple[int, float]]()
        with self._database.read() as db:
            for _ in range(_SAMPLES):
                began_ms = self._own.elapsed_ms()
                server_ms = db.execute(_TIME).scalar_one()
                ended_ms = self._own.elapsed_ms()
                samples.append((ended_ms - began_ms, server_ms - (began_ms + ended_ms) / 2))
        response_ms, self._difference_ms = min(samples)
        self.margin_ms = max(_LEAST_MARGIN_MS, response_ms)


def margin_ms(clock: Clock) -> int:
    """Return the upper bound in milliseconds of the difference between the times of two nodes."""
    return clock.margin_ms if isinstance(clock, DatabaseClock) else 0
