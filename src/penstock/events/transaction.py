"""One transaction of the intake: deduplicate, resolve identities, fill the outbox."""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection

from penstock.base.ids import EventId, new_ids
from penstock.events import store
from penstock.events.model import NewEvent, Receipt, Source, Status, scope_tag
from penstock.events.rows import event_row
from penstock.events.store import DedupeRecord
from penstock.identity import service as identity
from penstock.identity.model import Claim, Notice, Resolution, Trust

BODY_DIFFERS = Notice(
    "body_differs",
    "Another event with other content has used this ID before. That first event was not changed.",
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

Item = NewEvent | Claim
Outcome = Receipt | Resolution


def store_items(connection: Connection, items: Sequence[Item], now_ms: int) -> list[Outcome]:
    """Store events and identify calls in their order; the caller commits.

    Returns receipts and resolutions in the same order. `ConcurrentUpdate` or `StoreConflict`
    when another node was faster: roll back and try again.

    The steps: look up dedupe keys, pick the new items, resolve their identities, write keys and
    outbox, answer repeats.
    """
    known = store.dedupe_records(connection, _dedupe_keys(items))
    new_places = _places_of_new_items(items, known)
    resolutions, aliases = identity.resolve(
        connection, [_claim(items[place]) for place in new_places], now_ms
    )
    outcomes: dict[int, Outcome] = {}
    new_records: dict[bytes, DedupeRecord] = {}
    rows = []
    # IDs rise, so that events at equal times are read in the order in which they were sent, and
    # the same batch gives the same data quality.
    event_ids = map(EventId, new_ids("evt", now_ms, len(new_places)))
    for place, resolution, event_id in zip(new_places, resolutions, event_ids, strict=True):
        item = items[place]
        if isinstance(item, Claim):
            outcomes[place] = resolution
            continue
        outcomes[place] = Receipt(
            Status.ACCEPTED,
            event_id,
            resolution.visitor_id,
            (*item.warnings, *resolution.notices),
        )
        rows.append(event_row(item, event_id, resolution.visitor_id))
        if item.dedupe_key is not None:
            new_records[item.dedupe_key] = DedupeRecord(
                item.body_hash, event_id, resolution.visitor_id, scope_tag(item.scope_id)
            )
    store.add_dedupe_records(connection, new_records, now_ms)
    store.put_in_outbox(connection, rows, aliases)
    known.update(new_records)
    return [outcomes.get(place) or _duplicate(item, known) for place, item in enumerate(items)]


def _dedupe_keys(items: Sequence[Item]) -> list[bytes]:
    return [
        item.dedupe_key
        for item in items
        if isinstance(item, NewEvent) and item.dedupe_key is not None
    ]


def _places_of_new_items(items: Sequence[Item], known: Collection[bytes]) -> list[int]:
    """Places of the items that repeat neither a stored event nor an earlier item."""
    seen = set(known)
    places = []
    for place, item in enumerate(items):
        key = item.dedupe_key if isinstance(item, NewEvent) else None
        if key is None or key not in seen:
            places.append(place)
        if key is not None:
            seen.add(key)
    return places


def _claim(item: Item) -> Claim:
    if isinstance(item, Claim):
        return item
    return Claim(item.scope_id, item.visitor_id, item.user_id, trust=_TRUST[item.source])


def _duplicate(item: Item, known: dict[bytes, DedupeRecord]) -> Receipt:
    assert isinstance(item, NewEvent)
    assert item.dedupe_key is not None
    first = known[item.dedupe_key]
    if first.visitor_id is None:
        return Receipt(Status.DUPLICATE, first.event_id, None, (*item.warnings, DELETED))
    warnings = (
        item.warnings if first.body_hash == item.body_hash else (*item.warnings, BODY_DIFFERS)
    )
    return Receipt(Status.DUPLICATE, first.event_id, first.visitor_id, warnings)
