"""Builds the JSON responses for stored events, as described in `schema`.

They are built directly, because pydantic models would make a response for a thousand events six
times slower. A test compares the responses with `schema`.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import json

from penstock.base.clock import iso
from penstock.events.batch import ItemResult
from penstock.events.model import Receipt, Status


def receipt_json(receipt: Receipt) -> bytes:
    """Return an `EventRecord` as JSON."""
    status, event_id, visitor_id, warnings, _ = receipt
    document: dict[str, Any] = {"status": status, "eventId": event_id, "visitorId": visitor_id}
    if warnings:
        document["warnings"] = [notice._asdict() for notice in warnings]
    return json.encode(document)


def track_json(results: Sequence[ItemResult], now_ms: int) -> bytes:
    """Return a `TrackRecord` as JSON. results: one per item, in the order of the items."""
    return json.encode({"serverTime": iso(now_ms), **_batch(results)})


def batch_json(results: Sequence[ItemResult]) -> bytes:
    """Return a `BatchRecord` as JSON. results: one per item, in the order of the items."""
    return json.encode(_batch(results))


def _batch(results: Sequence[ItemResult]) -> dict[str, Any]:
    items = [_item(index, result) for index, result in enumerate(results)]
    statuses = [item["status"] for item in items]
    return {
        "accepted": statuses.count(Status.ACCEPTED),
        "duplicates": statuses.count(Status.DUPLICATE),
        "rejected": statuses.count("rejected"),
        "results": items,
    }


def _item(index: int, result: ItemResult) -> dict[str, Any]:
    """Return an `ItemRecord` as a dictionary."""
    if result.receipt is None:
        item: dict[str, Any] = {
            "index": index,
            "status": "rejected",
            "eventId": None,
            "visitorId": None,
            "errors": [
                {"field": fault.field, "code": fault.code, "message": fault.message}
                for fault in result.faults
            ],
        }
        if result.more_faults:
            item["moreErrors"] = result.more_faults
        return item
    status, event_id, visitor_id, warnings, _ = result.receipt
    item = {
        "index": index,
        "status": status,
        "eventId": event_id,
        "visitorId": visitor_id,
        "errors": (),
    }
    if warnings:
        item["warnings"] = [notice._asdict() for notice in warnings]
    return item
