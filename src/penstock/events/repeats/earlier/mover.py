"""Moves the keys that earlier versions stored to the event keys."""

from penstock.base.clock import Clock
from penstock.base.ids import packed_id
from penstock.base.worker import Worker
from penstock.events.repeats import store as repeats_store
from penstock.events.repeats.earlier import store
from penstock.events.repeats.earlier.model import EarlierKey
from penstock.events.repeats.event_keys import EventKeys
from penstock.events.repeats.model import DedupeRecord, EventKey, Origin, event_number
from penstock.metadb.database import Database

_WORK = 7305808869229538680
"""Advisory lock number. Only one node moves keys at a time."""

_KEYS_AT_ONCE = 500
_PAUSE_S = 0.02  # The pause lets other transactions write.
_POLL_S = 60.0


class EarlierKeyMover:
    """Moves the oldest keys first, some in each transaction, until none are left."""

    def __init__(self, database: Database, clock: Clock, event_keys: EventKeys) -> None:
        self._database, self._clock, self._event_keys = database, clock, event_keys
        self.worker = Worker("dedupe_key_move", self._step, clock, period_s=_POLL_S)

    def _step(self) -> float | None:
        self._event_keys.open()
        with self._database.read() as db:
            self._event_keys.has_earlier = store.any_left(db)
        if not self._event_keys.has_earlier:
            return None
        with self._database.exclusive_lock(_WORK) as is_mine:
            if not is_mine:
                return None
            with self._database.write() as db:
                keys = store.following(db, 0, _KEYS_AT_ONCE, lock=True)
                now_ms = self._clock()
                lasting = [
                    key
                    for key in keys
                    if not self._event_keys.is_expired(key.record.created_at_ms, now_ms)
                ]
                hashes = self._event_keys.hashes(key.dedupe_key for key in lasting)
                origins = {
                    origin: repeats_store.origin_number(db, origin)
                    for origin in dict.fromkeys(map(_origin, lasting))
                }
                moved = [
                    _event_key(hashes[key.dedupe_key], origins[_origin(key)], key.record)
                    for key in lasting
                ]
                repeats_store.add(db, moved)
                store.remove_by_id(db, [key.id for key in keys])
        return _PAUSE_S


def _event_key(key: bytes, origin: int, record: DedupeRecord) -> EventKey:
    return EventKey(
        key,
        event_number(record.created_at_ms, 0),
        record.body,
        origin,
        None if record.visitor_id is None else packed_id("vis", record.visitor_id),
        packed_id("evt", record.event_id),
    )


def _origin(key: EarlierKey) -> Origin:
    return Origin(key.scope_tag, key.record.import_id)
