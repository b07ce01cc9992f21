"""SQL for losses, and for the ledger of rows that the event store should have."""

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, case, delete, exists, insert, select, text, update

from penstock.events.losses.model import Ledger, Loss, LossState, NewestShipments
from penstock.events.model import Target
from penstock.events.repeats.model import number_ms
from penstock.events.repeats.store import newest_number
from penstock.metadb.tables import (
    deletions,
    event_ledger,
    installation,
    losses,
    shipments,
)

_LEDGER, _L = event_ledger.c, losses.c
_READ = select(
    _LEDGER.stored,
    _LEDGER.removed,
    _LEDGER.shipment,
    ~exists().where(shipments.c.target == Target.EVENTS)
    & ~exists().where(deletions.c.state.in_(("queued", "running"))),
)
_ADD = update(event_ledger).values(
    stored=_LEDGER.stored + bindparam("more_stored"),
    removed=_LEDGER.removed + bindparam("more_removed"),
    shipment=case(
        (_LEDGER.shipment < bindparam("newest"), bindparam("newest")), else_=_LEDGER.shipment
    ),
)
_ALL = select(_L.id, _L.found_at, _L.rows, _L.accepted_at).order_by(_L.id)
_FOUND = _L.accepted_at.is_(None)
_FOUND_ROWS = select(_L.rows).where(_FOUND)

_FORGET_SEQUENCE = text("DELETE FROM sqlite_sequence WHERE name = :table AND seq <= :number")
_ADD_SEQUENCE = text(
    "INSERT INTO sqlite_sequence (name, seq) SELECT :table, :number "
    "WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = :table)"
)
_SET_SEQUENCE = text(
    "SELECT setval(CAST(:sequence AS regclass), "
    "greatest(nextval(CAST(:sequence AS regclass)), :number))"
)


def add_to_ledger(
    connection: Connection, *, stored: int = 0, removed: int = 0, shipment: int = 0
) -> None:
    """Add to the ledger's counts. Call this last, because it locks a row that all nodes share.

    shipment: the shipment's number. The ledger keeps the highest number.
    """
    connection.execute(_ADD, {"more_stored": stored, "more_removed": removed, "newest": shipment})


def ledger(connection: Connection) -> Ledger:
    return Ledger(*connection.execute(_READ).one())


def all_losses(connection: Connection) -> Sequence[Loss]:
    """List all losses, oldest first."""
    return [
        Loss(number, at_ms, rows, LossState.FOUND if accepted_at is None else LossState.ACCEPTED)
        for number, at_ms, rows, accepted_at in connection.execute(_ALL)
    ]


def rows_found(connection: Connection) -> int:
    """Return the number of rows that were missing at the last comparison."""
    return connection.execute(_FOUND_ROWS).scalar() or 0


def save_found(connection: Connection, rows: int, at_ms: int) -> None:
    """Record the number of rows that are missing now.

    The stored time changes only if more rows are missing than before.
    """
    before = rows_found(connection)
    if not rows:
        connection.execute(delete(losses).where(_FOUND))
    elif not before:
        connection.execute(insert(losses).values(found_at=at_ms, rows=rows))
    else:
        moved = {"found_at": at_ms} if rows > before else {}
        connection.execute(update(losses).where(_FOUND).values(rows=rows, **moved))


def installation_id(connection: Connection) -> str | None:
    """Return the ID of this metadata DB; None before the first shipment."""
    return connection.execute(select(installation.c.id)).scalar()


def newest_shipment(connection: Connection) -> tuple[int, bool]:
    """Return the highest shipment number, and whether that shipment is unfinished."""
    is_open = exists().where(shipments.c.id == _LEDGER.shipment)
    number, is_unfinished = connection.execute(select(_LEDGER.shipment, is_open)).one()
    return number, is_unfinished


def continue_above(connection: Connection, newest: NewestShipments) -> None:
    """Continue the numbers of shipments, merges and bundles above those in the event store."""
    for table, number in (
        ("shipments", newest.event_store),
        ("merges", newest.merge),
        ("outbox", newest.traits),
    ):
        if connection.dialect.name == "sqlite":
            values = {"table": table, "number": number}
            connection.execute(_FORGET_SEQUENCE, values)
            connection.execute(_ADD_SEQUENCE, values)
        else:
            connection.execute(_SET_SEQUENCE, {"sequence": f"{table}_id_seq", "number": number})
    add_to_ledger(connection, shipment=newest.event_store)


def add_accepted(connection: Connection, at_ms: int) -> None:
    """Record that the metadata DB has lost its newest entries."""
    connection.execute(insert(losses).values(found_at=at_ms, rows=0, accepted_at=at_ms))


def newest_entry_ms(connection: Connection) -> int | None:
    """Return the time of the last accepted event in the metadata DB; None if there is none."""
    newest = newest_number(connection)
    return number_ms(newest) if newest else None


def accept_found(connection: Connection, at_ms: int) -> int:
    """Accept the losses found so far, and stop expecting their rows.

    Returns the number of lost rows.
    """
    rows = rows_found(connection)
    if rows:
        connection.execute(update(losses).where(_FOUND).values(accepted_at=at_ms))
        add_to_ledger(connection, stored=-rows)
    return rows
