"""The outbox as the shipper sees it: bundles of rows, cut into numbered shipments."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from penstock.base.errors import StoreConflict
from penstock.base.ids import new_id
from penstock.events.model import Target
from penstock.metadb.database import Database
from penstock.metadb.tables import installation, outbox, shipments

_UNCUT = (
    select(outbox.c.id)
    .where(
        outbox.c.shipment_id.is_(None),
        outbox.c.target == bindparam("to"),
        outbox.c.id <= bindparam("up_to"),
    )
    .order_by(outbox.c.id)
)
_ANY_UNCUT = _UNCUT.limit(1)
_CHOSEN = _UNCUT.limit(bindparam("most")).with_for_update(skip_locked=True).cte("chosen")
_CUT = (
    update(outbox)
    .where(outbox.c.id.in_(select(_CHOSEN.c.id)))
    .values(shipment_id=bindparam("number"))
)
_ANY_IN = select(outbox.c.id).where(outbox.c.shipment_id == bindparam("number")).limit(1)
_OLDEST = (
    select(shipments.c.id)
    .where(shipments.c.target == bindparam("to"))
    .order_by(shipments.c.id)
    .limit(1)
    .with_for_update(skip_locked=True)
)
_BUNDLES = (
    select(outbox.c.lines).where(outbox.c.shipment_id == bindparam("number")).order_by(outbox.c.id)
)
_REMOVE_BUNDLES = delete(outbox).where(outbox.c.shipment_id == bindparam("number"))
_REMOVE = delete(shipments).where(shipments.c.id == bindparam("number"))
_NEWEST = select(func.max(outbox.c.id))
_OLDEST_BUNDLE = select(func.min(outbox.c.id))


class Shipment(NamedTuple):
    """Bundles of rows that go to the warehouse together; a number always has the same bundles."""

    number: int
    target: Target
    bundles: Sequence[str]


class Outbox:
    """Rows that are acknowledged but not yet in the warehouse."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def installation_id(self, now_ms: int) -> str:
        """The ID of this metadata DB, created once.

        Part of every token: another DB with the same warehouse numbers its shipments from 1 too.
        """
        try:
            with self._database.write() as connection:
                if connection.execute(select(installation.c.id)).first() is None:
                    connection.execute(
                        insert(installation).values(number=1, id=new_id("ins", now_ms))
                    )
        except StoreConflict:
            pass  # another node was first
        with self._database.read() as connection:
            return str(connection.execute(select(installation.c.id)).scalar_one())

    def cut(self, target: Target, up_to: int, most: int, now_ms: int) -> bool:
        """Create a shipment of at most `most` bundles, up to the number `up_to`.

        False when none waits.
        """
        with self._database.read() as connection:
            if connection.execute(_ANY_UNCUT, {"to": target, "up_to": up_to}).first() is None:
                return False
        with self._database.write() as connection:
            number = connection.execute(
                insert(shipments).values(target=target, cut_at=now_ms).returning(shipments.c.id)
            ).scalar_one()
            connection.execute(_CUT, {"to": target, "up_to": up_to, "most": most, "number": number})
            # A query, because the SQLite driver has no row count of a statement that begins with
            # WITH.
            is_cut = connection.execute(_ANY_IN, {"number": number}).first() is not None
            if not is_cut:  # other nodes were faster
                _remove(connection, number)
        return is_cut

    @contextmanager
    def next_shipment(self, target: Target) -> Iterator[Shipment | None]:
        """The oldest shipment that no other node ships right now; removed if the block raises
        nothing.

        On PostgreSQL its row is locked meanwhile; a node that dies releases it. SQLite has one
        shipper, and a lock would stop the intake.
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
        """The highest number of a bundle that waits; None when the outbox is empty."""
        with self._database.read() as connection:
            return connection.execute(_NEWEST).scalar()

    def holds_any_up_to(self, number: int) -> bool:
        """Whether a bundle waits whose number is at most this one."""
        with self._database.read() as connection:
            oldest = connection.execute(_OLDEST_BUNDLE).scalar()
        return oldest is not None and oldest <= number


def _oldest(connection: Connection, target: Target) -> Shipment | None:
    number = connection.execute(_OLDEST, {"to": target}).scalar()
    return (
        None
        if number is None
        else Shipment(
            number, target, connection.execute(_BUNDLES, {"number": number}).scalars().all()
        )
    )


def _remove(connection: Connection, number: int) -> None:
    connection.execute(_REMOVE_BUNDLES, {"number": number})
    connection.execute(_REMOVE, {"number": number})
