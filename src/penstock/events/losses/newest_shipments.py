"""Compares the highest shipment numbers in both stores.

The event store gets a shipment's number before its rows. If its highest number is above the one in
the metadata DB, the metadata DB has lost its newest entries, for example because of a truncated
write-ahead log or an older copy. It would then use the same numbers for other rows, and the engine
would ignore these rows as repeats.
"""

from penstock.base.clock import Clock
from penstock.base.wording import utc_time
from penstock.events.losses import store
from penstock.events.losses.model import NewestShipments
from penstock.metadb.database import Database
from penstock.warehouse.client import Warehouse
from penstock.warehouse.queries import load


def newest_shipments(database: Database, warehouse: Warehouse) -> NewestShipments:
    """Read the highest numbers from both stores. Blocks. Other nodes may be shipping at the same
    time.
    """
    with database.read() as db:
        installation = store.installation_id(db)
    # Read the event store first. Each number is in the metadata DB before it is sent to the event
    # store.
    sql = load("penstock.events.losses", "newest_numbers")
    [numbers] = warehouse.query_at_once(sql, {"installation": installation or ""})[1]
    number, merge, traits = map(int, numbers)
    with database.read() as db:
        shipment, is_open = store.newest_shipment(db)
    return NewestShipments(number, shipment, is_open, merge, traits)


def lost_entries(database: Database, newest: NewestShipments) -> str:
    """Return a message with advice for operators whose metadata DB is behind the event store."""
    with database.read() as db:
        entry_ms = store.newest_entry_ms(db)
    since = f"after {utc_time(entry_ms)}" if entry_ms is not None else "at any time"
    return (
        "the metadata database has lost its newest entries: the event store has shipment "
        f"{newest.event_store}, but the newest that the database knows is {newest.database}. "
        f"Events that were accepted {since} may be missing or counted twice. Restore a backup of "
        "both stores, or continue with what is left: penstock verify --accept-loss"
    )


def accept_lost_entries(database: Database, newest: NewestShipments, clock: Clock) -> None:
    """Continue all numbers above the event store's highest.

    Reports will permanently show a gap.
    """
    with database.write() as db:
        store.continue_above(db, newest)
        store.add_accepted(db, clock())
