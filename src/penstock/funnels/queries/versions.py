"""Versions of the stored data. Comparing them reveals a change without reading the data.

The engine numbers every insert, and every row contains the number of its insert. So the rows that
were inserted after a version can be counted separately; a deletion lowers the total number of rows.
"""

from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

from penstock.base.ids import ScopeId, WebsiteId
from penstock.funnels.queries.single_flight_cache import NotCached
from penstock.warehouse.client import RunQuery, Warehouse
from penstock.warehouse.queries import load

_MAX_KNOWN = 1_000
_NO_BLOCK = 2**63 - 1
_ONLY_SERVER = 0
"""The engine's number of a server outside a cluster."""
_TRIES = 3
"""Maximum attempts to read a version. An attempt fails if any workspace inserts rows."""


class StorageState(NamedTuple):
    """The stored data of all websites: two states are equal only if nothing changed between them.

    events_block, aliases_block: numbers of the newest inserts; 0 on a cluster, whose servers number
    their inserts separately. inserts: hash of the newest insert of each server. parts: hash of the
    names of each server's parts; a merge of parts changes only this hash.
    """

    events_block: int
    aliases_block: int
    inserts: int
    parts: int

    def has_same_inserts(self, other: "StorageState") -> bool:
        """Whether nothing was inserted between the two states."""
        return self[:3] == other[:3]


class DataVersion(NamedTuple):
    """A version of some websites' stored data. Every change results in a new version.

    since: the state in which the last change was noticed. events, aliases: number of rows.
    traits_versions, visitors_with_traits: sum of the newest version of each visitor, and number of
    visitors, in the scopes whose traits are read.
    """

    since: StorageState
    events: int
    aliases: int
    traits_versions: int = 0
    visitors_with_traits: int = 0


class VersionScope(NamedTuple):
    """The data that a version is about. trait_scopes: the scopes whose traits are read."""

    website_ids: tuple[WebsiteId, ...]
    scope_ids: tuple[ScopeId, ...]
    trait_scopes: tuple[ScopeId, ...] = ()


class _Known(NamedTuple):
    """A version, and the newest state in which it was valid."""

    version: DataVersion
    state: StorageState


class VersionReader:
    """Reads versions with one short statement while nothing changes. Methods block."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._known: OrderedDict[VersionScope, _Known] = OrderedDict()
        self._locks: dict[VersionScope, Lock] = {}
        self._lock = Lock()  # Guards `_known` and `_locks`.

    def read(self, key: VersionScope) -> DataVersion:
        """Return the version of the current data, or a newer one."""
        with self._lock_of(key):  # concurrent equal queries get the same version
            return self._read(key, self._warehouse.query)

    def read_at_once(self, key: VersionScope) -> DataVersion:
        """Read the version without waiting for other queries.

        Raises `NotCached` if no version is known yet, or if another query is reading it.
        """
        if self._known_of(key) is None or not (lock := self._lock_of(key)).acquire(blocking=False):
            raise NotCached
        try:
            return self._read(key, self._warehouse.query_at_once)
        finally:
            lock.release()

    def _lock_of(self, key: VersionScope) -> Lock:
        with self._lock:
            return self._locks.setdefault(key, Lock())

    def _known_of(self, key: VersionScope) -> _Known | None:
        with self._lock:
            return self._known.get(key)

    def _read(self, key: VersionScope, query: RunQuery) -> DataVersion:
        state = read_state(query)
        for _ in range(_TRIES):
            known = self._known_of(key)
            if known is not None and known.state == state:
                return known.version
            version = _compare(query, key, known, state)
            earlier, state = state, read_state(query)
            if state.has_same_inserts(earlier):
                # Remember the earlier state: the counts may miss a deletion since then.
                self._remember(key, _Known(version, earlier))
                return version
        # The data changed while they were counted, so nothing is certain. A new version is always
        # safe.
        return version._replace(since=state)

    def _remember(self, key: VersionScope, known: _Known) -> None:
        with self._lock:
            self._known[key] = known
            self._known.move_to_end(key)
            if len(self._known) > _MAX_KNOWN:
                oldest, _ = self._known.popitem(last=False)
                self._locks.pop(oldest, None)


def _compare(
    query: RunQuery, key: VersionScope, known: _Known | None, state: StorageState
) -> DataVersion:
    """Return the known version if it is still valid in this state, else a new one."""
    seen = state if known is None else known.state
    # On a cluster, any insert may concern these websites, so there is nothing to count.
    is_ordered = seen.events_block > 0
    names, [row] = query(
        load("penstock.funnels.queries", "stored_since"),
        {
            "websites": list(key.website_ids),
            "scopes": list(key.scope_ids),
            "trait_scopes": list(key.trait_scopes),
            "events_block": seen.events_block if is_ordered else _NO_BLOCK,
            "aliases_block": seen.aliases_block if is_ordered else _NO_BLOCK,
        },
    )
    counts = dict(zip(names, row, strict=True))
    version = DataVersion(state, *(counts[name] for name in DataVersion._fields[1:]))
    is_same = (
        known is not None
        and is_ordered
        and counts["new_events"] == counts["new_aliases"] == 0
        and version[1:] == known.version[1:]
    )
    return known.version if known is not None and is_same else version


def read_state(query: RunQuery) -> StorageState:
    """Return the current state. query: runs SQL in the warehouse."""
    _, rows = query(load("penstock.funnels.queries", "storage_state"))
    newest = dict[tuple[int, str], int]()
    for server, table, _, block in rows:
        newest[server, table] = max(newest.get((server, table), 0), block)
    return StorageState(
        newest.get((_ONLY_SERVER, "events"), 0),
        newest.get((_ONLY_SERVER, "visitor_aliases"), 0),
        inserts=hash(frozenset(newest.items())),
        parts=hash(frozenset((server, table, name) for server, table, name, _ in rows)),
    )
