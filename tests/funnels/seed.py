"""Stores a history directly in the warehouse, as the shipper would."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

from penstock.base.clock import iso
from penstock.base.scalar import property_columns, tagged
from penstock.funnels.definitions.builtins import TOUCH_COLUMNS
from penstock.funnels.statements.sources import member_texts
from penstock.warehouse.client import Warehouse
from penstock.warehouse.cluster import shard_table
from tests.funnels.reference import Event, History

EVENT_COLUMNS = (
    "website_id",
    "kind",
    "name",
    "occurred_at",
    "event_id",
    "client_event_id",
    "session_id",
    "received_at",
    "stated_at",
    "scope_id",
    "visitor_id",
    "source",
    "verified",
    "path",
    "referrer_host",
    "country",
    "link_method",
    *TOUCH_COLUMNS,
    "properties",
    "scalars",
    "hashes",
)
TRAIT_COLUMNS = ("scope_id", "visitor_id", "texts", "version")
ALIAS_COLUMNS = ("scope_id", "visitor_id", "canonical_id", "version")

_CASES_TOGETHER = 50
"""Maximum number of cases in the warehouse at a time.

Each case has its own property keys, so thousands of cases would keep the engine busy with merges.
"""

_numbers = count(1)
_stored = Counter[str]()


def stored_cases() -> int:
    """Return the number of cases that this process has stored."""
    return _stored["cases"]


def store_case(warehouse: Warehouse, history: History, inserts: int) -> tuple[History, str]:
    """Store the history of a property test on separate websites, as `isolated` does."""
    make_room(warehouse)
    history, mark = isolated(history)
    store(warehouse, history, inserts)
    return history, mark


def make_room(warehouse: Warehouse) -> None:
    """Count a new case, and remove earlier cases if there are many."""
    _stored["cases"] += 1
    if _stored["cases"] % _CASES_TOGETHER == 1:
        for table in ("events", "visitor_aliases", "visitor_traits", "catalogue"):
            warehouse.command(f"TRUNCATE TABLE {table}")


def isolated(history: History) -> tuple[History, str]:
    """Return the same history on unused websites and in unused scopes, and the prefix of their
    IDs.
    """
    mark = f"{next(_numbers)}_"
    events = tuple(
        replace(event, website_id=mark + event.website_id, scope_id=mark + event.scope_id)
        for event in history.events
    )
    return History(
        events,
        {
            (mark + scope, visitor): canonical
            for (scope, visitor), canonical in history.merges.items()
        },
        {(mark + scope, visitor): own for (scope, visitor), own in history.traits.items()},
        {
            cohort_id: [(mark + scope, visitor) for scope, visitor in members]
            for cohort_id, members in history.cohorts.items()
        },
    ), mark


def store(warehouse: Warehouse, history: History, inserts: int = 1, *, shipment: int = 0) -> None:
    """Insert the events in order, in `inserts` portions, and then the merges and traits.

    shipment: the number of their shipment.
    Each absorbed visitor also gets an older alias that points to another visitor, and each visitor
    with traits had others before.
    """
    for portion in range(inserts):
        _insert(
            warehouse,
            "events",
            (*EVENT_COLUMNS, "shipment"),
            [
                event_row(event) | {"shipment": shipment}
                for event in history.events[portion::inserts]
            ],
        )
    rows = []
    for version, ((scope, visitor), canonical) in enumerate(history.merges.items(), start=1):
        rows.append(
            {
                "scope_id": scope,
                "visitor_id": visitor,
                "canonical_id": f"before-{visitor}",
                "version": version,
            }
        )
        rows.append(
            {
                "scope_id": scope,
                "visitor_id": visitor,
                "canonical_id": canonical,
                "version": 1000 + version,
            }
        )
    _insert(warehouse, "visitor_aliases", ALIAS_COLUMNS, rows)
    _insert(
        warehouse,
        "visitor_traits",
        TRAIT_COLUMNS,
        [
            {"scope_id": scope, "visitor_id": visitor, "texts": texts, "version": version}
            for (scope, visitor), traits in history.traits.items()
            for version, texts in (
                (1, {"plan": "sbefore"}),
                (2, {name: tagged(value) for name, value in traits.items()}),
            )
        ],
    )


def merge_parts(warehouse: Warehouse) -> None:
    """Merge the parts of the events, in a cluster those of one server."""
    table = "events" if warehouse.cluster is None else shard_table("events")
    warehouse.command(f"OPTIMIZE TABLE {table} FINAL")


def member_keys(warehouse: Warehouse, history: History) -> Mapping[str, tuple[str, ...]]:
    """Return the members of the saved cohorts, as a query reads them."""
    keys = "SELECT sipHash64(member.1, member.2) AS visitor_key FROM (SELECT arrayJoin({members:"
    keys += "Array(Tuple(String, String))}) AS member)"
    return {
        cohort_id: member_texts([key for (key,) in warehouse.query(keys, {"members": members})[1]])
        for cohort_id, members in history.cohorts.items()
    }


def event_row(event: Event) -> dict[str, object]:
    occurred_at = iso(event.at_ms)
    row = {
        "website_id": event.website_id,
        "kind": event.kind,
        "name": event.name,
        "occurred_at": occurred_at,
        "event_id": event.event_id,
        "client_event_id": event.client_event_id,
        "session_id": event.session_id,
        "received_at": occurred_at,
        "stated_at": occurred_at,
        "scope_id": event.scope_id,
        "visitor_id": event.visitor_id,
        "source": event.source,
        "verified": event.verified,
        "properties": json.dumps(event.properties, ensure_ascii=False),
        **property_columns(event.properties),
    }
    return row | dict(event.fields)


def _insert(
    warehouse: Warehouse, table: str, columns: Sequence[str], rows: Sequence[Mapping[str, object]]
) -> None:
    if rows:
        lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        warehouse.insert_json_rows(
            table, lines.encode(), columns, token=f"{table}-{next(_numbers)}"
        )
