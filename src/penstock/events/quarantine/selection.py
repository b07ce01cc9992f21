"""Selects quarantine entries for deletions and for exports of a person's data."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from msgspec import json
from sqlalchemy import Connection

from penstock.base.clock import iso, parse_time
from penstock.base.ids import WebsiteId
from penstock.events import store as events_store
from penstock.events.model import EventCounts
from penstock.events.quarantine import store
from penstock.events.quarantine.model import EVENT_ROUTES, QuarantineEntry, Reason
from penstock.metadb.database import Database
from penstock.metadb.person import Person, StoredRecord


def containing(sent_ids: Collection[str]) -> Callable[[QuarantineEntry], bool]:
    """Return a function that tests whether an entry's content contains one of the IDs.

    Only whole values match. Numbers match too, because senders may send an ID as a number by
    mistake.
    """
    ids = set(sent_ids)

    def contains(entry: QuarantineEntry) -> bool:
        content = json.decode(entry.content or "null")
        return any(str(value) in ids for value in _values(content))

    return contains


def _values(content: Any) -> Iterator[Any]:
    """Yield all values in a JSON document that are neither lists nor objects."""
    waiting = [content]
    while waiting:
        match waiting.pop():
            case dict() as item:
                waiting += item.values()
            case list() as items:
                waiting += items
            case value:
                yield value


def within(from_ms: int, to_ms: int, kind: str | None = None) -> Callable[[QuarantineEntry], bool]:
    """Return a function that tests whether an entry's event is in a period and of a kind.

    Content without a time counts as of its time of receipt. Content without a kind matches all
    kinds.
    """

    def is_within(entry: QuarantineEntry) -> bool:
        at_ms, own_kind = _time_and_kind(entry)
        return from_ms <= at_ms < to_ms and own_kind in (None, kind or own_kind)

    return is_within


def _time_and_kind(entry: QuarantineEntry) -> tuple[int, str | None]:
    item = None if entry.content is None else json.decode(entry.content)
    if not isinstance(item, dict):
        return entry.at_ms, None
    sent = item.get("occurred_at" if entry.reason is Reason.UNSHIPPABLE else "timestamp")
    try:
        at_ms = parse_time(sent, naive_is_utc=True)
    except ValueError:
        at_ms = entry.at_ms
    kinds = {"/api/v1/transactions": "transaction", "/api/track": item.get("type")}
    if entry.reason is Reason.UNSHIPPABLE:
        kind = item.get("kind")
    else:
        kind = kinds.get(entry.origin, "event" if entry.origin in EVENT_ROUTES else None)
    return at_ms, kind if isinstance(kind, str) else None


def forget_quarantined(
    database: Database,
    website_ids: Collection[str],
    condition: Callable[[QuarantineEntry], bool],
    removed: Counter[str],
) -> dict[WebsiteId, int]:
    """Delete matching entries of these websites, page by page, because the search is slow.

    Returns the number of the last entry searched, by website.

    removed: counter to which the numbers of deleted entries are added.
    """
    with database.read() as db:
        owners = store.owners(db, website_ids)
    searched = dict.fromkeys(owners, 0)
    for website_id, workspace_id in owners.items():
        while True:
            with database.read() as db:
                entries = store.after(db, workspace_id, website_id, searched[website_id])
            if not entries:
                break
            searched[website_id] = entries[-1].number
            if numbers := [entry.number for entry in entries if condition(entry)]:
                with database.write() as db:
                    number = _remove(db, website_id, numbers)
                removed[website_id] += number
    return searched


def forget_latest_quarantined(
    db: Connection,
    condition: Callable[[QuarantineEntry], bool],
    searched: Mapping[WebsiteId, int],
) -> int:
    """Delete matching entries added since a search, in the caller's transaction.

    Returns the number of deleted entries. searched: the result of `forget_quarantined`.
    """
    return sum(
        _remove(db, website_id, [entry.number])
        for website_id, number in searched.items()
        for entry in list(store.entries_where(db, [website_id], condition, number))
    )


def _remove(db: Connection, website_id: WebsiteId, numbers: Collection[int]) -> int:
    removed = len(store.remove(db, numbers))
    events_store.add_counts(db, {website_id: EventCounts(dropped=removed)})
    return removed


def quarantined_texts(db: Connection, person: Person) -> Iterator[StoredRecord]:
    """Find entries that contain one of a person's IDs."""
    for entry in store.entries_where(db, person.website_ids, containing(person.sent_ids)):
        item = {
            "websiteId": entry.website_id,
            "receivedAt": iso(entry.at_ms),
            "content": json.decode(entry.content or "null"),
        }
        yield "rejected", item
