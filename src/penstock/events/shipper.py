"""Carries acknowledged rows from the outbox to the warehouse, each exactly once.

A shipment's number is written down before it is sent and sent as the token by which the engine recognises a repeat. After a crash at any
point the same rows go out again under the same number, which changes nothing if they had arrived.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from math import inf
from threading import Condition, Event, Lock, Thread
from time import monotonic

import structlog
from anyio import to_thread
from sqlalchemy.exc import DBAPIError

from penstock.base.clock import Clock
from penstock.events.model import Target
from penstock.events.outbox import Outbox, Shipment
from penstock.events.rows import ALIAS_COLUMNS, CLICK_COLUMNS, EVENT_COLUMNS
from penstock.metadb.database import Database
from penstock.warehouse.client import QueryFailed, Warehouse

log = structlog.get_logger()

COLUMNS = {Target.ALIASES: ALIAS_COLUMNS, Target.EVENTS: EVENT_COLUMNS, Target.CLICKS: CLICK_COLUMNS}
"""In the order of shipping: a merge is visible no later than the event that brought it."""

_SHIPMENT_BUNDLES = 500
_PIECE_BYTES = 32 * 1024 * 1024
_LINGER_S = 0.15  # gathers commits into one insert: each insert is a part on disk that the engine has to merge later
_LONGEST_LINGER_S = 0.6
_REST = 4  # on a busy machine, times the last shipping: at most a fifth of the time goes into it
_POLL_S = 1.0  # finds what other nodes left behind
_LONGEST_BACKOFF_S = 15.0
_LAST_WORDS_S = 5.0


class Shipper:
    """One thread, which ships whatever is in the outbox while the service runs."""

    def __init__(self, database: Database, warehouse: Warehouse, clock: Clock) -> None:
        self._outbox, self._warehouse, self._clock = Outbox(database), warehouse, clock
        self._installation_id: str | None = None
        self._wake, self._hurry, self._stopping = Event(), Event(), Event()
        self._shipped = Condition()
        self._carrying = Lock()
        self._thread = Thread(target=self._ship_until_stopped, name="shipper", daemon=True)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While the service runs. At the end: ship what waits, but only for a few seconds; the rest goes out after the next start."""
        self._thread.start()
        try:
            yield
        finally:
            for signal in (self._stopping, self._hurry, self._wake):
                signal.set()
            await to_thread.run_sync(self._thread.join)

    def wake(self) -> None:
        """There is something to ship. Never blocks."""
        self._wake.set()

    def wait_until_shipped(self, timeout_s: float, up_to: int | None = None) -> bool:
        """Wait until everything that was acknowledged before this call is in the warehouse; False when the time was not enough.

        up_to: wait for the bundles up to this number instead. Blocks; call it from a worker thread. Asks the outbox, so that it holds for
        events that other nodes took in, too.
        """
        newest = self._outbox.newest() if up_to is None else up_to
        if newest is None:
            return True
        deadline_s = monotonic() + timeout_s
        while self._outbox.holds_any_up_to(newest):
            left_s = deadline_s - monotonic()
            if left_s <= 0:
                return False
            self._hurry.set()
            self._wake.set()
            with self._shipped:
                self._shipped.wait(min(left_s, 0.05))
        return True

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While nothing is inserted into the warehouse; what is acknowledged waits in the outbox."""
        with self._carrying:
            yield

    def ship(self, until_s: float = inf) -> None:
        """Carry off everything that waits now. Raises what the stores raise; nothing is lost then.

        until_s: when to stop in between shipments, on the monotonic clock.
        """
        newest = self._outbox.newest()
        if newest is None:
            return
        self._installation_id = self._installation_id or self._outbox.installation_id(self._clock())
        for target in COLUMNS:
            while monotonic() < until_s and (self._ship_next(target) or self._outbox.cut(target, newest, _SHIPMENT_BUNDLES, self._clock())):
                pass

    def _ship_next(self, target: Target) -> bool:
        with self._carrying, self._outbox.next_shipment(target) as shipment:
            if shipment is None:
                return False
            for number, piece in enumerate(_pieces(shipment)):
                token = f"{self._installation_id}-{shipment.number}-{number}"
                self._warehouse.insert_json_rows(target, piece, COLUMNS[target], token)
        with self._shipped:
            self._shipped.notify_all()
        return True

    def _ship_until_stopped(self) -> None:
        backoff_s, linger_s, stopping = 0.0, _LINGER_S, False
        while not stopping:
            self._wake.wait(_POLL_S)
            self._wake.clear()
            self._hurry.wait(linger_s)
            self._hurry.clear()
            began_s = monotonic()
            stopping = self._stopping.is_set()  # asked before shipping, so that the last shipping has all that was stored until the stop
            try:
                self.ship(until_s=began_s + _LAST_WORDS_S if stopping else inf)
                backoff_s = 0.0
                linger_s = min(max(_LINGER_S, (monotonic() - began_s) * _REST), _LONGEST_LINGER_S)
            except Exception as error:  # whatever it is, the rows are safe, and a shipper that has ended ships nothing
                backoff_s = min(max(0.2, backoff_s * 2), _LONGEST_BACKOFF_S)
                away = isinstance(error, QueryFailed | DBAPIError | OSError)
                log.warning("shipping_failed", error=str(error), retry_in_s=backoff_s, exc_info=None if away else error)
                self._stopping.wait(backoff_s)


def _pieces(shipment: Shipment) -> Iterator[bytes]:
    """A shipment's rows, a line each, in inserts of bounded size; always cut at the same places."""
    piece: list[bytes] = []
    size = 0
    for bundle in shipment.bundles:
        lines = bundle.encode()
        if piece and size + len(lines) > _PIECE_BYTES:
            yield b"\n".join(piece)
            piece, size = [], 0
        piece.append(lines)
        size += len(lines)
    if piece:
        yield b"\n".join(piece)
