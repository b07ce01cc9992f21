"""Gives the page paths of stored events their canonical form (`penstock.base.paths`).

The name of a page view is its path, and no mutation can change what the table is sorted by. So
such events are inserted again and the old rows are hidden, path by path; then the hidden rows are
removed at once, because a mutation that removes rows writes whole parts.

It goes on after a kill: the paths that are left show what remains to do, and an event that has been
inserted again is not inserted twice. An old row is only hidden once its event is there again.
"""

import shutil
from collections.abc import Iterator
from functools import partial
from time import monotonic, sleep
from typing import Any, NamedTuple

import structlog

from penstock.base.chunks import chunks
from penstock.base.paths import page_path
from penstock.base.wording import count_of
from penstock.warehouse.catalogue import await_mutations, rebuild_catalogue
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import NotEnoughDisk, QueryFailed

log = structlog.get_logger()

_PAGE_PATHS = 10_000
_GROUP_BYTES = 100_000
"""Paths of one statement: a mutation is stored with them, in a cluster by Keeper."""
_SLICE_ROWS = 100_000
_POLL_S, _LINE_EVERY_S = 0.1, 5.0

_PLAIN = r"^[A-Za-z0-9._~!$&'()*+,;=:@/-]*$"
"""Paths of these characters alone are canonical, unless they have dot segments."""

_CANDIDATES = """
SELECT path::String AS spelling, count() AS events
FROM events
WHERE path > {after:String} AND (NOT match(path, {plain:String}) OR position(path, '/.') > 0)
GROUP BY path
ORDER BY path
LIMIT {limit:UInt64}
SETTINGS max_bytes_before_external_group_by = 500000000"""

# One slice of the events with these paths, without those that are there again. IDs of events are
# unique in the whole store.
_RESPELLED = """
SELECT * REPLACE (
    if(old.kind = 'pageview' AND old.name = old.path, transform(
        old.path::String, {paths:Array(String)}, {canonical:Array(String)}, old.path::String
    ), old.name::String) AS name,
    transform(
        old.path::String, {paths:Array(String)}, {canonical:Array(String)}, old.path::String
    ) AS path
)
FROM events AS old
WHERE old.path IN {paths:Array(String)}
    AND sipHash64(old.event_id) % {slices:UInt64} = {slice:UInt64}
    AND old.event_id NOT IN
    (
        SELECT event_id FROM events
        WHERE path IN {canonical:Array(String)} AND event_id IN
        (
            SELECT event_id FROM events
            WHERE path IN {paths:Array(String)}
                AND sipHash64(event_id) % {slices:UInt64} = {slice:UInt64}
        )
    )"""

# A cluster has the events of each shard sent to the node that asks; shards would need more rights.
_INSERT = f"""
INSERT INTO events {_RESPELLED}
SETTINGS insert_deduplicate = 0, parallel_distributed_insert_select = 0"""
_MISSING = f"SELECT count() FROM ({_RESPELLED})"  # noqa: S608 - text of our own
# What a lightweight DELETE does.
_HIDE = """
ALTER TABLE events UPDATE _row_exists = 0 WHERE path IN {paths:Array(String)}
SETTINGS mutations_sync = 0"""
_HIDDEN_PARTS = """
SELECT count() FROM system.parts
WHERE database = currentDatabase() AND table IN ('events', 'events_local') AND active
    AND has_lightweight_delete"""
_REMOVE_HIDDEN = "ALTER TABLE events APPLY DELETED MASK SETTINGS mutations_sync = 0"
_SIZE = """
SELECT sum(rows), sum(bytes_on_disk) FROM system.parts
WHERE database = currentDatabase() AND table IN ('events', 'events_local') AND active"""

# Events that were inserted again count twice in the catalogue.
_WEBSITES_WITH_DIFFERENCES = """
SELECT DISTINCT website_id FROM
(
    SELECT website_id, kind::String AS kind, name::String AS name, toUInt64(events) AS listed,
        toUInt64(0) AS stored
    FROM catalogue WHERE property = ''
    UNION ALL
    SELECT website_id, kind::String, name::String, toUInt64(0), count() FROM events
    WHERE kind != 'provider'
    GROUP BY website_id, kind, name
)
GROUP BY website_id, kind, name
HAVING sum(listed) != sum(stored)
SETTINGS max_bytes_before_external_group_by = 500000000"""


class _Group(NamedTuple):
    """Canonical forms of paths that are not canonical, and the number of their events."""

    canonical: dict[str, str]
    events: int


class _Progress:
    """A line every few seconds. stage: what the upgrade does now."""

    def __init__(self, events: int) -> None:
        self.stage = "events"
        self._events, self._done, self._next_s = events, 0, monotonic() + _LINE_EVERY_S

    def add(self, events: int) -> None:
        self._done += events
        self._line()

    def pause(self) -> None:
        sleep(_POLL_S)
        self._line()

    def _line(self) -> None:
        if monotonic() > self._next_s:
            log.info("page_paths", stage=self.stage, events_done=self._done, events=self._events)
            self._next_s = monotonic() + _LINE_EVERY_S


def upgrade(warehouse: Warehouse) -> None:
    """Safe to run again, also after a kill in the middle. `NotEnoughDisk` before any change."""
    await_mutations(warehouse, "events", partial(sleep, _POLL_S))  # of a run that was killed
    events = sum(group.events for group in _groups(warehouse))
    progress = _Progress(events)
    if events:
        _require_disk(warehouse, events)
    for group in _groups(warehouse):
        _respell(warehouse, group, progress)
    [[hidden_parts]] = warehouse.query(_HIDDEN_PARTS)[1]
    if hidden_parts:
        progress.stage = "old rows"
        warehouse.command(_REMOVE_HIDDEN)
        await_mutations(warehouse, "events", progress.pause)
    progress.stage = "catalogue"
    websites = [website for (website,) in warehouse.query(_WEBSITES_WITH_DIFFERENCES)[1]]
    for chunk in chunks(websites):
        rebuild_catalogue(warehouse, chunk, progress.pause)


def _groups(warehouse: Warehouse) -> Iterator[_Group]:
    """All paths that are not canonical, in groups for one statement each."""
    group, size = _Group({}, 0), 0
    for path, events in _candidates(warehouse):
        canonical = page_path(path)
        if canonical == path:
            continue
        bytes_ = len(path.encode()) + len(canonical.encode())
        if group.canonical and size + bytes_ > _GROUP_BYTES:
            yield group
            group, size = _Group({}, 0), 0
        group.canonical[path] = canonical
        group, size = group._replace(events=group.events + events), size + bytes_
    if group.canonical:
        yield group


def _candidates(warehouse: Warehouse) -> Iterator[tuple[str, int]]:
    """Paths that may not be canonical, with the number of their events."""
    page: Any = [("", 0)]
    while page:
        values = {"after": page[-1][0], "plain": _PLAIN, "limit": _PAGE_PATHS}
        page = warehouse.query(_CANDIDATES, values)[1]
        yield from page


def _respell(warehouse: Warehouse, group: _Group, progress: _Progress) -> None:
    slices = group.events // _SLICE_ROWS + 1
    paths, canonical = list(group.canonical), list(group.canonical.values())
    for number in range(slices):
        values = {"paths": paths, "canonical": canonical, "slices": slices, "slice": number}
        warehouse.insert_selected("events", _INSERT, values)
        [[missing]] = warehouse.query(_MISSING, values)[1]
        if missing:
            raise QueryFailed(f"{count_of(missing, 'event')} could not be inserted again", 0)
        progress.add(group.events * (number + 1) // slices - group.events * number // slices)
    warehouse.command(_HIDE, {"paths": paths})
    await_mutations(warehouse, "events", progress.pause)


def _require_disk(warehouse: Warehouse, events: int) -> None:
    """All parts with old rows are written anew, and what is inserted is merged once or twice.

    The engine removes the files before that eight minutes later.
    """
    [[rows, size]] = warehouse.query(_SIZE)[1]
    needed = size + 3 * size * events // rows
    log.info("page_paths", events_done=0, events=events, needs_disk_bytes=needed)
    if warehouse.folder is None:
        return  # a server refuses what does not fit, before it writes
    free = shutil.disk_usage(warehouse.folder).free
    if free < needed:
        raise NotEnoughDisk(
            f"the upgrade changes the page paths of {count_of(events, 'event')} and needs "
            f"{needed / 1e9:,.1f} GB of free disk in {warehouse.folder}, which has "
            f"{free / 1e9:,.1f} GB; nothing was changed"
        )
