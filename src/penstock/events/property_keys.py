"""Limits the number of different property keys of each website.

The metadata DB stores hashes of the keys. The transaction that stores the first event with a key
adds it. Every node remembers the keys that it has seen, so that only new keys need a query.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter

from sqlalchemy import Connection

from penstock.base.errors import Fault
from penstock.base.ids import WebsiteId
from penstock.events import store
from penstock.events.model import NewEvent

_MAX_CACHED_KEYS = 200_000
"""Maximum number of hashes in memory, which take about 20 MB. The least recently used websites are
removed first.
"""
_NO_KEYS: Set[int] = frozenset()


class PropertyKeys:
    """Known property keys of each website. Only the intake's writer uses it."""

    def __init__(self, limit: int) -> None:
        """limit: maximum number of different keys per website."""
        self._limit = limit
        self._known: OrderedDict[WebsiteId, set[int]] = OrderedDict()
        self._cached_keys = 0

    def faults(
        self, connection: Connection, events: Sequence[NewEvent]
    ) -> tuple[list[Fault | None], Mapping[WebsiteId, set[int]]]:
        """Add the events' new keys, in the caller's transaction.

        Returns a fault for each event that exceeds the limit (None for the others), and the hashes
        to `remember` once the transaction is committed.
        """
        faults: list[Fault | None] = [None] * len(events)
        indexes_by_keys = defaultdict[tuple[WebsiteId, tuple[str, ...]], list[int]](list)
        for index, event in enumerate(events):
            if event.properties and event.has_free_keys:
                indexes_by_keys[event.website_id, tuple(event.properties)].append(index)
        unknown = defaultdict[WebsiteId, list[tuple[int, set[int]]]](list)
        for (website_id, keys), indexes in indexes_by_keys.items():
            hashes = {_hash(key) for key in keys}
            if not hashes <= self._known.get(website_id, _NO_KEYS):
                unknown[website_id] += [(index, hashes) for index in indexes]
        known_since: dict[WebsiteId, set[int]] = {}
        # Sort by ID, so that nodes wait for each other instead of deadlocking.
        for website_id, with_hashes in sorted(unknown.items()):
            public_indexes = {index for index, _ in with_hashes if events[index].is_public}
            known_since[website_id] = self._add(
                connection, website_id, with_hashes, public_indexes, faults
            )
        return faults, known_since

    def remember(self, hashes: Mapping[WebsiteId, set[int]]) -> None:
        """Remember committed keys."""
        for website_id, keys in hashes.items():
            known = self._known.setdefault(website_id, set())
            self._cached_keys += len(keys - known)
            known |= keys
            self._known.move_to_end(website_id)
        while self._cached_keys > _MAX_CACHED_KEYS and len(self._known) > 1:
            self._cached_keys -= len(self._known.popitem(last=False)[1])

    def _add(
        self,
        connection: Connection,
        website_id: WebsiteId,
        with_hashes: Iterable[tuple[int, set[int]]],
        public_indexes: Set[int],
        faults: list[Fault | None],
    ) -> set[int]:
        """Add the keys of a website's events, up to the limit. Returns their stored keys.

        public_indexes: indexes of events that anyone may have sent. They can use only half of the
        limit, so that strangers leave room for the website's backends.
        """
        with_hashes = sorted(with_hashes, key=itemgetter(0))
        sent = sorted(set().union(*(hashes for _, hashes in with_hashes)))
        known = store.known_property_keys(connection, website_id, sent)
        if len(known) == len(sent):
            return known
        # Nodes that add keys to the same website wait for each other, so that they stay within the
        # limit.
        room = self._limit - store.lock_property_keys(connection, website_id)
        known = store.known_property_keys(connection, website_id, sent)
        added = set[int]()
        for index, hashes in with_hashes:
            new = hashes - known
            if len(new) > (room - self._limit // 2 if index in public_indexes else room):
                faults[index] = self._fault()
                continue
            room -= len(new)
            known |= new
            added |= new
        store.add_property_keys(connection, website_id, sorted(added))
        return known

    def _fault(self) -> Fault:
        return Fault(
            "properties",
            "too_many_property_keys",
            f"The events of a website may have at most {self._limit:,} different property keys, "
            f"and events without a key add none beyond {self._limit - self._limit // 2:,}; this "
            "event has new ones. Send what varies as a value, such as "
            '{"experiment": "blue"} instead of {"experiment_blue": true}.',
        )


@lru_cache(maxsize=20_000)
def _short_hash(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), signed=True)


_CACHED_CHARS = 200


def _hash(key: str) -> int:
    """Return the 64-bit hash of a key. Hashes are stored, so the function must never change."""
    return _short_hash(key) if len(key) <= _CACHED_CHARS else _short_hash.__wrapped__(key)
