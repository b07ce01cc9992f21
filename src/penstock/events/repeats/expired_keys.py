"""Deletes the keys of events that have expired."""

from penstock.base.chunks import chunks
from penstock.events.repeats import store
from penstock.events.repeats.event_keys import EventKeys
from penstock.events.repeats.model import event_number
from penstock.metadb.database import Database

_KEYS_PER_SLICE = 50_000
_PASS_S = 43_200
"""Seconds in which all keys are read once. Expired keys recognise no repeats, so it may be long."""


class ExpiredKeys:
    """Goes through all keys, in their order, some at a time.

    Keys are hashes, so that any part of their range has its share of the keys.
    """

    def __init__(self, database: Database, event_keys: EventKeys) -> None:
        self._database, self._event_keys = database, event_keys
        self._after: int | None = None

    def remove_some(self, now_ms: int) -> float:
        """Delete the expired keys in the next slice. Returns the seconds until the next one."""
        before, after = event_number(now_ms - self._event_keys.lifetime_ms, 0), self._after
        with self._database.read() as db:
            end = store.end_of_slice(db, after, _KEYS_PER_SLICE)
            keys = store.expired_keys(db, after, end, before)
        for chunk in chunks(keys):
            with self._database.write() as db:
                store.remove(db, chunk, before)
        self._after = None if end == store.LAST_KEY else end
        share = (end - (-store.LAST_KEY if after is None else after)) / (2 * store.LAST_KEY)
        return share * _PASS_S
