"""The keys of events in the metadata DB."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select

from penstock.app import Services
from penstock.events.repeats.model import EventKey, event_key
from penstock.metadb.tables import event_keys, event_origins

_C = event_keys.c
_COLUMNS = (_C.key_high, _C.key_low, _C.number, _C.body, _C.origin, _C.visitor, _C.event_id)


def all_keys(services: Services) -> list[EventKey]:
    with services.database.read() as db:
        return [event_key(*row) for row in db.execute(select(*_COLUMNS))]


def imports_of_keys(services: Services) -> Sequence[Any]:
    """The import of each key."""
    query = select(event_origins.c.import_id).join(
        event_keys, event_keys.c.origin == event_origins.c.number
    )
    with services.database.read() as db:
        return db.execute(query).scalars().all()
