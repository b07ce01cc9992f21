"""The outbox as the shipper sees it: rows are cut into numbered shipments, shipments are carried off one at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from penstock.base.ids import new_id
from penstock.events.store import Target
from penstock.metadb.database import Database
from penstock.metadb.tables import installation, outbox, shipments


class Shipment(NamedTuple):
    """Rows that go to the warehouse together, always the same ones under the same number."""

    number: int
    target: Target
    rows: Sequence[str]


class Outbox:
    """Rows that are acknowledged but not yet in the warehouse."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def installation_id(self, now_ms: int) -> str:
        """Names this metadata DB; made once. Part of every token: another DB before the same warehouse counts its shipments from 1 too."""
        try:
            with self._database.write() as connection:
                if connection.execute(select(installation.c.id)).first() is None:
                    connection.execute(insert(installation).values(number=1, id=new_id("ins", now_ms)))
        except IntegrityError:
            pass  # another node was first
        with self._database.read() as connection:
            return str(connection.execute(select(installation.c.id)).scalar_one())

    def cut(self, target: Target, most_rows: int, now_ms: int) -> bool:
        """Write down the number of a new shipment and which rows are in it. False when nothing waits."""
        waiting = (
            select(outbox.c.id)
            .where(outbox.c.shipment_id.is_(None), outbox.c.target == target)
            .order_by(outbox.c.id)
            .limit(most_rows)
            .with_for_update(skip_locked=True)
            .cte("waiting")
        )
        with self._database.write() as connection:
            number = connection.execute(insert(shipments).values(target=target, cut_at=now_ms).returning(shipments.c.id)).scalar_one()
            connection.execute(update(outbox).where(outbox.c.id.in_(select(waiting.c.id))).values(shipment_id=number))
            # Asked rather than counted: the SQLite driver counts no rows of a statement that begins with WITH.
            cut = connection.execute(select(outbox.c.id).where(outbox.c.shipment_id == number).limit(1)).first() is not None
            if not cut:
                _remove(connection, number)
        return cut

    @contextmanager
    def next_shipment(self, target: Target) -> Iterator[Shipment | None]:
        """The oldest shipment that no other node carries right now; gone from the outbox when the block ends without an error.

        PostgreSQL holds the shipment's row locked meanwhile; a node that dies lets go of it. On SQLite there is one shipper, and a lock
        would stop the intake.
        """
        if self._database.is_sqlite:
            with self._database.read() as connection:
                shipment = _oldest(connection, target)
            yield shipment
            if shipment is not None:
                with self._database.write() as connection:
                    _remove(connection, shipment.number)
        else:
            with self._database.write() as connection:
                shipment = _oldest(connection, target)
                yield shipment
                if shipment is not None:
                    _remove(connection, shipment.number)

    def newest(self) -> int | None:
        """The highest number of a waiting row; None when the outbox is empty."""
        with self._database.read() as connection:
            return connection.execute(select(func.max(outbox.c.id))).scalar()

    def holds_any_up_to(self, row_number: int) -> bool:
        """Whether a row waits that is at most as new."""
        with self._database.read() as connection:
            oldest = connection.execute(select(func.min(outbox.c.id))).scalar()
        return oldest is not None and oldest <= row_number


def _oldest(connection: Connection, target: Target) -> Shipment | None:
    found = connection.execute(
        select(shipments.c.id).where(shipments.c.target == target).order_by(shipments.c.id).limit(1).with_for_update(skip_locked=True)
    ).first()
    if found is None:
        return None
    rows = connection.execute(select(outbox.c.row).where(outbox.c.shipment_id == found.id).order_by(outbox.c.id)).scalars().all()
    return Shipment(found.id, target, rows)


def _remove(connection: Connection, number: int) -> None:
    connection.execute(delete(outbox).where(outbox.c.shipment_id == number))
    connection.execute(delete(shipments).where(shipments.c.id == number))
