"""What one transaction of the intake does: recognise repeats, resolve identities, put events into the outbox."""

from collections.abc import Sequence

from sqlalchemy import Connection

from penstock.base.ids import EventId, new_ids
from penstock.events import store
from penstock.events.model import NewEvent, Receipt, Status, scope_tag
from penstock.events.rows import event_row
from penstock.events.store import Kept
from penstock.identity import service as identity
from penstock.identity.model import Claim, Notice, Resolution

BODY_DIFFERS = Notice("body_differs", "The ID was used before by an event with another content; that first event was kept as it is.")
DELETED = Notice("event_deleted", "The visitor of the first event was deleted since; the repeat is not stored again.")

Item = NewEvent | Claim
Outcome = Receipt | Resolution


def store_items(connection: Connection, items: Sequence[Item], now_ms: int) -> list[Outcome]:
    """Store events and identify calls in their order: receipts and resolutions in the same order. Commits nothing by itself.

    `Contended` or an integrity error when another node was faster: roll back and try again.
    """
    used = store.kept(connection, [item.dedupe_key for item in items if isinstance(item, NewEvent) and item.dedupe_key is not None])
    fresh = _first_of_each(items, used)
    resolutions, aliases = identity.resolve(connection, [_claim(items[place]) for place in fresh], now_ms)
    outcomes: dict[int, Outcome] = {}
    newly_used: dict[bytes, Kept] = {}
    rows = []
    # In rising order, so that events which nothing else orders are read as they were sent: the same batch gives the same data quality.
    event_ids = map(EventId, new_ids("evt", now_ms, len(fresh)))
    for place, resolution, event_id in zip(fresh, resolutions, event_ids, strict=True):
        item = items[place]
        if isinstance(item, Claim):
            outcomes[place] = resolution
            continue
        outcomes[place] = Receipt(Status.ACCEPTED, event_id, resolution.visitor_id, resolution.notices)
        rows.append(event_row(item, event_id, resolution.visitor_id))
        if item.dedupe_key is not None:
            newly_used[item.dedupe_key] = Kept(item.body_hash, event_id, resolution.visitor_id, scope_tag(item.scope_id))
    store.keep(connection, newly_used, now_ms)
    store.put_in_outbox(connection, rows, aliases)
    used.update(newly_used)
    return [outcomes.get(place) or _repeat(item, used) for place, item in enumerate(items)]


def _first_of_each(items: Sequence[Item], used: dict[bytes, Kept]) -> list[int]:
    """Places of the items that are no repeat, neither of a stored event nor of an earlier item."""
    seen = set(used)
    fresh = []
    for place, item in enumerate(items):
        key = item.dedupe_key if isinstance(item, NewEvent) else None
        if key is None or key not in seen:
            fresh.append(place)
        if key is not None:
            seen.add(key)
    return fresh


def _claim(item: Item) -> Claim:
    return item if isinstance(item, Claim) else Claim(item.scope_id, item.visitor_id, item.user_id)


def _repeat(item: Item, used: dict[bytes, Kept]) -> Receipt:
    assert isinstance(item, NewEvent)
    assert item.dedupe_key is not None
    first = used[item.dedupe_key]
    if first.visitor_id is None:
        return Receipt(Status.DUPLICATE, first.event_id, None, (DELETED,))
    return Receipt(Status.DUPLICATE, first.event_id, first.visitor_id, () if first.body_hash == item.body_hash else (BODY_DIFFERS,))
