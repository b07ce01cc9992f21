"""Finishes releases that are too large for one transaction."""

from collections.abc import Callable

from penstock.base.clock import Clock
from penstock.base.worker import Worker
from penstock.events import store as events_store
from penstock.identity import service as identity
from penstock.metadb.database import Database

_POLL_S = 2.0
_PAUSE_S = 0.02  # The pause lets other transactions write.
_VISITORS_AT_ONCE = 200


class VisitorReleases:
    """Updates the rows of released visitors in batches, and ships their aliases."""

    def __init__(self, database: Database, clock: Clock, on_stored: Callable[[], None]) -> None:
        """on_stored: called after each commit; wakes the shipper."""
        self._database, self._clock, self._on_stored = database, clock, on_stored
        self.worker = Worker("visitor_releases", self._step, clock, period_s=_POLL_S)

    def _step(self) -> float | None:
        now_ms = self._clock()
        with self._database.read() as db:
            if not identity.any_open_release(db):
                return None
        with self._database.write() as db:
            aliases = identity.release_some(db, now_ms, _VISITORS_AT_ONCE)
            if aliases is None:
                return None
            events_store.put_aliases_in_outbox(db, aliases, now_ms)
        self._on_stored()
        return _PAUSE_S
