"""The intake's transaction: deduplicate, resolve identities, fill the outbox, count."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from penstock.base.calendar import utc_day
from penstock.base.ids import ImportId, WebsiteId, packed_id
from penstock.events import store
from penstock.events.batch_order import VisitorKey, VisitorTimes, order_batches
from penstock.events.device_clock import DeviceClock, clock_after, device_key, error_by_device
from penstock.events.model import (
    EventCounts,
    NewEvent,
    Receipt,
    Refusal,
    Rejected,
    Replay,
    Source,
    Status,
)
from penstock.events.property_keys import PropertyKeys
from penstock.events.quarantine import store as quarantine_store
from penstock.events.quarantine.model import QuarantineLimits
from penstock.events.repeats import store as repeats_store
from penstock.events.repeats.event_keys import EventKeys
from penstock.events.repeats.model import (
    DedupeRecord,
    body_number,
    event_ids,
    event_number,
    last_number,
)
from penstock.events.rows import event_row
from penstock.identity import service as identity
from penstock.identity.model import Claim, Notice, Resolution, Trust, is_placeholder

BODY_DIFFERS = Notice(
    "body_differs",
    "An earlier event with this ID has different content. The earlier event stays as it is.",
)
DELETED = Notice(
    "event_deleted",
    "The visitor of the first event has been deleted; the repeat was not stored.",
)

_TRUST = {
    Source.BROWSER: Trust.PUBLIC,
    Source.APP: Trust.PUBLIC,
    Source.SERVER: Trust.BACKEND,
    Source.IMPORT: Trust.BACKEND,
    Source.PROVIDER: Trust.PROVIDER,
}

Item = NewEvent | Replay | Claim | Refusal
Outcome = Receipt | Rejected | Resolution | None
"""The result for an item. None for a refusal, for a replay whose entry no longer exists, and for a
line of an import that was undone.
"""


class Stored(NamedTuple):
    """The result of a transaction.

    outcomes: one per item, in the order of the items.
    keys, times: property keys and visitors' times to remember after the commit.
    """

    outcomes: list[Outcome]
    keys: Mapping[WebsiteId, set[int]]
    times: Mapping[VisitorKey, int]


def store_items(
    connection: Connection,
    items: Sequence[Item],
    now_ms: int,
    id_ms: int,
    event_keys: EventKeys,
    property_keys: PropertyKeys,
    visitor_times: VisitorTimes,
    limits: QuarantineLimits,
    earlier_until_ms: int,
) -> Stored:
    """Store events, identify calls and refusals in their order. The caller commits.

    id_ms: the time in the IDs of new events, later than in all earlier commits. event_keys: open.
    earlier_until_ms: time of the newest record that may be stored under an `earlier_dedupe_key`; 0
    if none remain. Raises `ConcurrentUpdate` or `StoreConflict` if another node made a conflicting
    change; the caller must roll back and retry.

    Steps: look up dedupe keys, select new items, check their property keys, correct times by device
    clocks, resolve identities, order batches, write dedupe keys and outbox, store refusals, answer
    repeats, count.
    """
    # For each quarantine entry, the index of its first replay. A second replay finds the entry
    # deleted.
    replays: dict[int, int] = {}
    for index, item in enumerate(items):
        if isinstance(item, Replay):
            replays.setdefault(item.entry, index)
    replayable = quarantine_store.lock(connection, replays)
    indexes = {replays[entry] for entry in replayable}
    events = {
        index: item.event if isinstance(item, Replay) else item
        for index, item in enumerate(items)
        if isinstance(item, NewEvent) or (isinstance(item, Replay) and index in indexes)
    }
    undone = _undone_imports(connection, items)
    if undone:
        events = {index: event for index, event in events.items() if event.import_id not in undone}
    event_keys.begin()
    hashes = _hashes(event_keys, events.values(), earlier_until_ms)
    known = _known_records(connection, event_keys, hashes, now_ms)
    _add_earlier(known, events.values(), earlier_until_ms)
    new_indexes = _indexes_of_new_events(events, known)
    faults, keys = property_keys.faults(connection, [events[index] for index in new_indexes])
    outcomes: dict[int, Outcome] = {
        index: Rejected(fault)
        for index, fault in zip(new_indexes, faults, strict=True)
        if fault is not None
    }
    events.update(_by_device_clocks(connection, items, new_indexes, now_ms))
    claims = {
        index: item
        for index, item in enumerate(items)
        if isinstance(item, Claim) and item.import_id not in undone
    }
    new_indexes = sorted([*(index for index in new_indexes if index not in outcomes), *claims])
    resolutions, identity_changes = identity.resolve(
        connection,
        [claims.get(index) or _claim(events[index]) for index in new_indexes],
        now_ms,
    )
    visitors = {
        index: (events[index].scope_id, resolution.visitor_id)
        for index, resolution in zip(new_indexes, resolutions, strict=True)
        if index not in claims
    }
    times = order_batches(events, visitors, identity_changes.aliases, visitor_times)
    new_keys: dict[bytes, tuple[int, int, int, bytes]] = {}
    rows = []
    # Numbers increase, so that events with equal times are read in the order in which they were
    # sent, and a repeated batch shows the same data quality.
    number = event_number(id_ms, 0)
    keys_or_none = [
        None if (key := events[index].dedupe_key) is None else hashes[key]
        for index in new_indexes
        if index not in claims
    ]
    own_ids = iter(zip(keys_or_none, event_ids(number, keys_or_none), strict=True))
    for index, resolution in zip(new_indexes, resolutions, strict=True):
        if index in claims:
            outcomes[index] = resolution
            continue
        event, visitor_id = events[index], resolution.visitor_id
        key, own_id = next(own_ids)
        outcomes[index] = Receipt(
            Status.ACCEPTED, own_id, visitor_id, event.warnings + resolution.notices
        )
        rows.append(event_row(event, own_id, visitor_id, times.by_index.get(index)))
        if key is not None:
            origin = event_keys.origin(connection, event.scope_id, event.import_id)
            visitor = packed_id("vis", visitor_id)
            new_keys[key] = number, body_number(event.body_hash), origin, visitor
        number += 1
    repeats_store.add_new(connection, new_keys)
    store.put_in_outbox(connection, rows, identity_changes, now_ms)
    repeats = [index for index in events if index not in outcomes]
    if repeats:
        firsts = {
            event.dedupe_key: (event, outcomes[index])
            for index, event in events.items()
            if index in outcomes
        }
        for index in repeats:
            outcomes[index] = _repeat_outcome(events[index], known, firsts)
    quarantine_store.remove(
        connection,
        [entry for entry in replayable if not isinstance(outcomes[replays[entry]], Rejected)],
    )
    refusals = [item for item in items if isinstance(item, Refusal)]
    dropped = quarantine_store.add(
        connection, [refusal.entry for refusal in refusals if refusal.is_stored], limits
    )
    counts = _counts(items, outcomes, dropped)
    store.add_counts(connection, counts, number - 1 if rows else 0)
    store.add_lost_events(connection, utc_day(now_ms), counts)
    return Stored([outcomes.get(index) for index in range(len(items))], keys, times.by_visitor)


def _hashes(
    event_keys: EventKeys, events: Collection[NewEvent], earlier_until_ms: int
) -> dict[bytes, bytes]:
    """Return the stored keys by dedupe key, also for earlier dedupe keys that may be stored."""
    keys = [event.dedupe_key for event in events if event.dedupe_key is not None]
    if earlier_until_ms:
        keys += [event.earlier_dedupe_key for event in events if event.earlier_dedupe_key]
    return event_keys.hashes(keys)


def _known_records(
    connection: Connection, event_keys: EventKeys, hashes: Mapping[bytes, bytes], now_ms: int
) -> dict[bytes, DedupeRecord]:
    """Read the records of dedupe keys.

    Removes records of undone imports, whose events are removed too, and those that have expired.
    """
    known = event_keys.find(connection, hashes)
    import_ids = {record.import_id for record in known.values() if record.import_id is not None}
    undone = store.undone_imports(connection, import_ids)
    removed = {
        key: record
        for key, record in known.items()
        if (record.import_id in undone and record.visitor_id is not None)
        or event_keys.is_expired(record.created_at_ms, now_ms)
    }
    if not removed:
        return known
    # Another node may have replaced the record in the meantime; its number is higher.
    up_to = last_number(max(record.created_at_ms for record in removed.values()))
    event_keys.remove(connection, {key: hashes[key] for key in removed}, up_to)
    return {key: record for key, record in known.items() if key not in removed}


def _add_earlier(
    known: dict[bytes, DedupeRecord], events: Collection[NewEvent], earlier_until_ms: int
) -> None:
    """Make records under earlier dedupe keys known under the events' own keys."""
    if not earlier_until_ms:
        return
    for event in events:
        record = known.get(event.earlier_dedupe_key) if event.earlier_dedupe_key else None
        if record is not None and record.created_at_ms <= earlier_until_ms and event.dedupe_key:
            known.setdefault(event.dedupe_key, record)


def _undone_imports(connection: Connection, items: Sequence[Item]) -> set[ImportId | None]:
    """Return the imports that were undone while their last lines waited for this transaction."""
    import_ids = {
        item.import_id
        for item in items
        if isinstance(item, NewEvent | Claim) and item.import_id is not None
    }
    return {*store.undone_imports(connection, import_ids, lock=True)}


def _by_device_clocks(
    connection: Connection, items: Sequence[Item], new_indexes: Sequence[int], now_ms: int
) -> dict[int, NewEvent]:
    """Return new events with times corrected by other requests of their devices, by index.

    A replay keeps the time from its own request.
    """
    timed = [
        (index, event, event.clock, device_key(event.scope_id, event.visitor_id))
        for index in new_indexes
        if isinstance(event := items[index], NewEvent)
        and event.clock is not None
        and event.visitor_id is not None
        and not is_placeholder(event.visitor_id)
    ]
    if not timed:
        return {}
    known = store.device_clocks_of(connection, sorted({device for *_, device in timed}))
    clocks: dict[bytes, DeviceClock | None] = dict(known)
    corrected = {}
    for index, event, reading, device in timed:
        clocks[device] = clock = clock_after(clocks.get(device), reading, now_ms)
        at_ms = max(0, event.stated_at_ms - error_by_device(clock, reading))
        if at_ms != event.occurred_at_ms:
            corrected[index] = event._replace(occurred_at_ms=at_ms)
    changed = {device: clock for device, clock in clocks.items() if clock != known.get(device)}
    store.set_device_clocks(connection, changed)
    return corrected


def _indexes_of_new_events(events: Mapping[int, NewEvent], known: Collection[bytes]) -> list[int]:
    """Return the indexes of events that repeat neither a stored event nor an earlier event in this
    call.
    """
    seen = set(known)
    indexes = []
    for index, event in events.items():
        if event.dedupe_key is None or event.dedupe_key not in seen:
            indexes.append(index)
        if event.dedupe_key is not None:
            seen.add(event.dedupe_key)
    return indexes


def _claim(event: NewEvent) -> Claim:
    user_id = event.user_id if event.links_user else None
    return Claim(
        event.scope_id,
        event.visitor_id,
        user_id,
        None,
        _TRUST[event.source],
        import_id=event.import_id,
    )


def _repeat_outcome(
    event: NewEvent,
    known: Mapping[bytes, DedupeRecord],
    firsts: Mapping[bytes | None, tuple[NewEvent, Outcome]],
) -> Outcome:
    """Return the outcome of a repeat: a duplicate of the first event, or the same refusal.

    firsts: the first events with their dedupe keys in this call, and their outcomes.
    """
    assert event.dedupe_key is not None
    body: int | None
    if record := known.get(event.dedupe_key):
        body, first_id, visitor_id, _, import_id = record
        if visitor_id is None:
            warnings = (*event.warnings, DELETED)
            return Receipt(Status.DUPLICATE, first_id, None, warnings, import_id)
    else:
        first, outcome = firsts[event.dedupe_key]
        if not isinstance(outcome, Receipt):
            return outcome
        body, import_id = body_number(first.body_hash), first.import_id
        first_id, visitor_id = outcome.event_id, outcome.visitor_id
    is_same = body == body_number(event.body_hash)
    warnings = event.warnings if is_same else (*event.warnings, BODY_DIFFERS)
    return Receipt(Status.DUPLICATE, first_id, visitor_id, warnings, import_id)


_ACCEPTED = EventCounts(received=1, waiting=1)
_DUPLICATE = EventCounts(received=1, duplicates=1)
_REFUSED = EventCounts(received=1, refused=1)
_DROPPED = EventCounts(dropped=1)
_LOST_ON_DEVICE = EventCounts(lost_on_devices=1)
_REPLAYED = EventCounts(received=-1, refused=-1)
"""Change of the counts for a replay. It undoes the earlier count as received and refused."""


def _counts(
    items: Sequence[Item], outcomes: Mapping[int, Outcome], dropped: Mapping[WebsiteId, int]
) -> dict[WebsiteId, EventCounts]:
    """Return the changes to the counts by website.

    Rejected events are counted when their refusal is recorded.
    """
    changes = Counter[tuple[WebsiteId, EventCounts]]()
    for index, item in enumerate(items):
        outcome = outcomes.get(index)
        if type(outcome) is Receipt:
            event = item.event if isinstance(item, Replay) else item
            assert isinstance(event, NewEvent)
            is_accepted = outcome.status is Status.ACCEPTED
            changes[event.website_id, _ACCEPTED if is_accepted else _DUPLICATE] += 1
            if is_accepted and event.dropped_before:
                changes[event.website_id, _LOST_ON_DEVICE] += event.dropped_before
            if event is not item:
                changes[event.website_id, _REPLAYED] += 1
        elif isinstance(item, Refusal) and item.is_event and (site := item.entry.website_id):
            changes[site, _REFUSED] += 1
            if not item.is_stored:
                changes[site, _DROPPED] += 1
    counts = {website_id: EventCounts(dropped=number) for website_id, number in dropped.items()}
    for (website_id, change), times in changes.items():
        counts[website_id] = counts.get(website_id, EventCounts()).plus(change, times)
    return counts
