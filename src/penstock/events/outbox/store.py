"""SQL for the outbox: bundles of rows, cut into numbered shipments."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import structlog
from msgspec import Struct, json
from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from penstock.base.clock import Clock
from penstock.base.errors import Fault, StoreConflict
from penstock.base.ids import WebsiteId, new_id
from penstock.events.losses.store import add_to_ledger
from penstock.events.model import EventCounts, Target
from penstock.events.outbox.model import Bundle, Shipment, UnshippableRow
from penstock.events.quarantine import store as quarantine_store
from penstock.events.quarantine.model import QuarantineEntry, QuarantineLimits, Reason
from penstock.events.store import add_counts
from penstock.health.model import OutboxState
from penstock.metadb.database import Database
from penstock.metadb.tables import event_ledger, installation, outbox, shipments
from penstock.warehouse.client import Shipments

log = structlog.get_logger()

_MAX_HALVES = 100
"""Number of bundles to search for the oldest, starting with the lowest number. When a bundle is
split, one half gets a number below all others.
"""
UNSHIPPABLE = "refused_by_event_store"
LEASE_S = 900.0
"""Maximum seconds that a node may hold a shipment; longer than any insert takes."""

# PostgreSQL ends a transaction that is idle for this long, for example during an insert.
_LEASE = select(
    func.set_config("idle_in_transaction_session_timeout", bindparam("milliseconds"), True)
)
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
_CHOSEN = _UNCUT.limit(bindparam("limit")).with_for_update(skip_locked=True).cte("chosen")
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
    select(outbox.c.id, outbox.c.lines)
    .where(outbox.c.shipment_id == bindparam("number"))
    .order_by(outbox.c.id)
)
_BY_AGE = select(outbox.c.put_at).order_by(outbox.c.id).limit(_MAX_HALVES).subquery()
_REMOVE_SOME = delete(outbox).where(outbox.c.id == bindparam("bundle"))
_REMOVE_BUNDLES = delete(outbox).where(outbox.c.shipment_id == bindparam("number"))
_REMOVE = delete(shipments).where(shipments.c.id == bindparam("number"))
_NEW_SHIPMENT = insert(shipments).returning(shipments.c.id)
_NEWEST = select(func.max(outbox.c.id))
_DEPTH = select(func.count()).select_from(outbox)
_OLDEST_PUT_AT = select(func.min(_BY_AGE.c.put_at))
_OLDEST_BUNDLE = select(func.min(outbox.c.id))
_FIRST_OPEN = (
    select(func.min(shipments.c.id)).where(shipments.c.target == Target.EVENTS).scalar_subquery()
)
# One statement, so that both numbers come from the same moment.
_SHIPMENTS = select(_FIRST_OPEN, event_ledger.c.shipment)
_LOCK_LEDGER = select(event_ledger.c.shipment).with_for_update()


class Outbox:
    """Acknowledged rows that are not in the warehouse yet."""

    def __init__(self, database: Database, clock: Clock, limits: QuarantineLimits) -> None:
        self._database, self._clock, self._limits = database, clock, limits

    def installation_id(self) -> str:
        """Return the ID of this metadata DB, and create it on the first call.

        It is part of every token, because another metadata DB with the same warehouse also numbers
        its shipments from 1.
        """
        try:
            with self._database.write() as connection:
                if connection.execute(select(installation.c.id)).first() is None:
                    connection.execute(
                        insert(installation).values(number=1, id=new_id("ins", self._clock()))
                    )
        except StoreConflict:
            pass  # Another node created it first.
        with self._database.read() as connection:
            return str(connection.execute(select(installation.c.id)).scalar_one())

    def cut(self, target: Target, up_to: int, limit: int) -> bool:
        """Create a shipment of at most `limit` bundles with numbers up to `up_to`.

        Returns False if no bundle is waiting.
        """
        with self._database.read() as connection:
            if connection.execute(_ANY_UNCUT, {"to": target, "up_to": up_to}).first() is None:
                return False
        with self._database.write() as connection:
            # One node at a time, so that shipments become visible in the order of their numbers.
            connection.execute(_LOCK_LEDGER)
            number = _new_shipment(connection, target, self._clock())
            connection.execute(
                _CUT, {"to": target, "up_to": up_to, "limit": limit, "number": number}
            )
            # Query the result, because the SQLite driver returns no row count for a statement that
            # starts with WITH.
            is_cut = connection.execute(_ANY_IN, {"number": number}).first() is not None
            if not is_cut:  # Other nodes have cut all bundles in the meantime.
                _remove(connection, number)
            else:
                add_to_ledger(connection, shipment=number)
        return is_cut

    @contextmanager
    def next_shipment(self, target: Target) -> Iterator[Shipment | None]:
        """Yield the oldest shipment that no other node is shipping; None if there is none.

        If the block succeeds, bundles that it shipped are removed and counted, a refused row goes
        into the quarantine, and any other remaining rows become two shipments of half the size.

        On PostgreSQL, the shipment's row is locked during the block. The lock is released if the
        node dies, or if it hangs for `LEASE_S`: its connection is then closed, and its later
        statements fail. With SQLite there is only one shipper, and a lock would block the intake.
        """
        if self._database.is_sqlite:
            with self._database.read() as connection:
                shipment = _oldest(connection, target)
            yield shipment
            if shipment is not None:
                # Do this before the write transaction, which blocks the intake.
                rows = _shipped_rows(shipment)
                with self._database.write() as connection:
                    self._finish(connection, shipment, rows)
        else:
            with self._database.write() as connection:
                connection.execute(_LEASE, {"milliseconds": str(round(LEASE_S * 1000))})
                shipment = _oldest(connection, target)
                yield shipment
                if shipment is not None:
                    self._finish(connection, shipment, _shipped_rows(shipment))

    def _finish(
        self, connection: Connection, shipment: Shipment, rows: Mapping[WebsiteId, int]
    ) -> None:
        """Remove a shipment and handle its remaining rows.

        rows: number of shipped rows by website; the result of `_shipped_rows`.
        """
        newest = shipment.number
        shipped, rest = shipment.bundles[: shipment.shipped], shipment.bundles[shipment.shipped :]
        changes = {
            website_id: EventCounts(waiting=-number, stored=number)
            for website_id, number in rows.items()
        }
        if rest and shipment.refused is None:
            for bundle in shipped:
                connection.execute(_REMOVE_SOME, {"bundle": bundle.number})
            newest = _halve(connection, shipment.target, rest, self._clock())
            connection.execute(_REMOVE, {"number": shipment.number})
        else:
            if shipment.refused is not None:
                quarantined = self._quarantine(connection, shipment.target, shipment.refused)
                for website_id, change in quarantined.items():
                    changes[website_id] = changes.get(website_id, EventCounts()).plus(change)
            _remove(connection, shipment.number)
        add_counts(connection, changes)
        add_to_ledger(connection, stored=sum(rows.values()), shipment=newest)

    def _quarantine(
        self, connection: Connection, target: Target, row: UnshippableRow
    ) -> dict[WebsiteId, EventCounts]:
        """Put a refused row into the quarantine. Returns the changes to its website's counts."""
        names = _OWNERS.decode(row.line)
        if names.website_id is not None:
            website_id = WebsiteId(names.website_id)
            workspace_id = quarantine_store.owners(connection, [website_id]).get(website_id)
        else:
            owner = quarantine_store.owner_of_scope(connection, names.scope_id or "")
            workspace_id, website_id = owner or (None, WebsiteId(""))
        if workspace_id is None:
            log.error("unshippable_row_of_nobody", target=target, code=row.code)
            return {}
        fault = Fault("", UNSHIPPABLE, row.message)
        entry = QuarantineEntry(
            workspace_id=workspace_id,
            website_id=website_id,
            at_ms=self._clock(),
            reason=Reason.UNSHIPPABLE,
            origin=target,
            code=fault.code,
            faults=(fault,),
            content=row.line,
        )
        dropped = quarantine_store.add(connection, [entry], self._limits)
        counts = EventCounts(dropped=dropped.get(website_id, 0))
        if target is Target.EVENTS:
            counts = counts.plus(EventCounts(waiting=-1, quarantined=1))
        return {website_id: counts}

    def shipments(self) -> Shipments:
        """Return the numbers of the shipments of all nodes.

        A shipment that is split stays open until its halves have their numbers.
        """
        with self._database.read() as connection:
            first_open, newest = connection.execute(_SHIPMENTS).one()
        return Shipments(newest if first_open is None else first_open - 1, newest)

    def newest(self) -> int | None:
        """Return the highest number of a waiting bundle; None if the outbox is empty."""
        with self._database.read() as connection:
            return connection.execute(_NEWEST).scalar()

    def state(self) -> OutboxState:
        """Return the number of waiting bundles from all nodes, and the age of the oldest."""
        with self._database.read() as connection:
            bundles = connection.execute(_DEPTH).scalar_one()
            oldest_ms = connection.execute(_OLDEST_PUT_AT).scalar()
        age_s = None if oldest_ms is None else max(0.0, (self._clock() - oldest_ms) / 1000)
        return OutboxState(bundles, age_s)

    def has_bundles_up_to(self, number: int) -> bool:
        """Whether a bundle is waiting whose number is at most the given number."""
        with self._database.read() as connection:
            oldest = connection.execute(_OLDEST_BUNDLE).scalar()
        return oldest is not None and oldest <= number


class _Owner(Struct):
    """The owner of a row: its website or identity scope."""

    website_id: str | None = None
    scope_id: str | None = None


_OWNERS = json.Decoder(_Owner)


def _shipped_rows(shipment: Shipment) -> Mapping[WebsiteId, int]:
    """Return the number of shipped events by website."""
    rows = Counter[WebsiteId]()
    if shipment.target is Target.EVENTS:
        for bundle in shipment.bundles[: shipment.shipped]:
            owners = _OWNERS.decode_lines(bundle.lines)
            rows.update(WebsiteId(owner.website_id or "") for owner in owners)
    return rows


def _oldest(connection: Connection, target: Target) -> Shipment | None:
    number = connection.execute(_OLDEST, {"to": target}).scalar()
    if number is None:
        return None
    rows = connection.execute(_BUNDLES, {"number": number}).all()
    return Shipment(number, target, [Bundle(*row) for row in rows])


def _halve(connection: Connection, target: Target, bundles: Sequence[Bundle], now_ms: int) -> int:
    """Split bundles into two shipments with new numbers. A single bundle is split by its rows.

    Returns the higher shipment number.
    """
    if len(bundles) == 1:
        rows = bundles[0].lines.split("\n")
        middle = len(rows) // 2
        second = Bundle(_number_below_all(connection), "\n".join(rows[middle:]))
        first = Bundle(bundles[0].number, "\n".join(rows[:middle]))
        connection.execute(
            update(outbox).where(outbox.c.id == first.number).values(lines=first.lines)
        )
        connection.execute(
            insert(outbox).values(
                id=second.number, target=target, lines=second.lines, put_at=now_ms
            )
        )
        bundles = [first, second]
    middle = len(bundles) // 2
    for half in (bundles[:middle], bundles[middle:]):
        number = _new_shipment(connection, target, now_ms)
        connection.execute(
            update(outbox).where(outbox.c.id == bindparam("bundle")).values(shipment_id=number),
            [{"bundle": bundle.number} for bundle in half],
        )
    return number


def _new_shipment(connection: Connection, target: Target, now_ms: int) -> int:
    """Add a shipment without bundles, and return its number."""
    values = {"target": target, "cut_at": now_ms}
    return int(connection.execute(_NEW_SHIPMENT, values).scalar_one())


def _number_below_all(connection: Connection) -> int:
    """Return a bundle number below all others, so that a wait for any number includes this
    bundle.
    """
    lowest: int | None = connection.execute(_OLDEST_BUNDLE).scalar()
    return min(lowest or 0, 0) - 1


def _remove(connection: Connection, number: int) -> None:
    connection.execute(_REMOVE_BUNDLES, {"number": number})
    connection.execute(_REMOVE, {"number": number})
