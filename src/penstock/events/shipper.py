"""Moves acknowledged rows from the outbox to the warehouse, each exactly once.

A shipment's number is stored before it is sent, and the engine uses it to recognise a repeat. After
a crash at any point, the same rows are sent again under the same number, which changes nothing if
they had already arrived. If the engine cannot read the rows of a shipment, the shipment is split in
half, with new numbers, until each bad row has its own shipment. Bad rows go into the quarantine.
After any other error, the same shipment is sent again.

If the process dies while the embedded engine reads a shipment, its rows count as unreadable, so
that they do not end the process at each start.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from math import inf
from threading import Condition, Event, Lock
from time import monotonic
from typing import NamedTuple

import structlog
from msgspec import json

from penstock.base.attempts import Attempts
from penstock.base.clock import Clock
from penstock.base.errors import StoreUnavailable
from penstock.base.metrics import counter
from penstock.base.worker import Worker
from penstock.events.model import Target
from penstock.events.outbox.model import Shipment, UnshippableRow
from penstock.events.outbox.store import Outbox
from penstock.events.quarantine.model import QuarantineLimits
from penstock.events.replicas import await_replicas
from penstock.events.rows import ALIAS_COLUMNS, CLICK_COLUMNS, EVENT_COLUMNS, TRAIT_COLUMNS
from penstock.health.model import FailedShipment, OutboxState
from penstock.metadb.database import Database
from penstock.warehouse.client import Shipments, Warehouse
from penstock.warehouse.errors import MEMORY_LIMIT_EXCEEDED, QueryFailed
from penstock.warehouse.queries import load

log = structlog.get_logger()

COLUMNS = {
    Target.ALIASES: ALIAS_COLUMNS,
    Target.TRAITS: TRAIT_COLUMNS,
    Target.EVENTS: (*EVENT_COLUMNS, "shipment"),
    Target.CLICKS: CLICK_COLUMNS,
}
"""Columns by table, in shipping order: a merge becomes visible before the event that caused it."""

_MARKS, _MARK_COLUMNS = "shipment_marks", ("installation", "number")
_SHIPMENTS = counter("penstock_shipments", "Inserts into the event store.", ["outcome"])
_PARSE_ERRORS = (6, 25, 26, 27, 32, 38, 41, 72, 117, 130, 306, 376, 467, 563, 632, 760)
_VALUE_ERRORS = (43, 44, 49, 53, 69, 70, 128, 131, 190, 321, 349, 386, 407, 645, 691)
"""Wrong types, sizes and ranges. Code 49 is an error inside the engine."""
_FAULTS_OF_ROWS = frozenset((*_PARSE_ERRORS, *_VALUE_ERRORS))
"""Engine error codes that rows can cause. All other codes concern a server or a shard, for example
its tables, limits, privileges or disk.
"""
_MAX_MESSAGE_CHARS = 500
_DIED = "process_died"
_MAX_DEATHS_OF_ROW = 3
_SHIPMENT_BUNDLES = 500
_PIECE_BYTES = 32 * 1024 * 1024
# Gather commits into one insert, because each insert is a part that the engine must merge later.
_LINGER_S = 0.15
_LONGEST_LINGER_S = 0.6
# Length of the pause relative to the shipping time, so that shipping takes at most a fifth of the
# time.
_LINGER_FACTOR = 4
_POLL_S = 1.0  # Polling finds bundles that other nodes left behind.
_STOP_S = 5.0
# With this many rows, each of two shards almost certainly has at least one of them.
_CHECKED_ROWS = 32


class Shipper:
    """A worker that ships everything in the outbox while the service runs."""

    def __init__(
        self,
        database: Database,
        warehouse: Warehouse,
        clock: Clock,
        limits: QuarantineLimits = QuarantineLimits(1000, 10 * 1024**2),  # noqa: B008 - immutable
        attempts: Attempts | None = None,
    ) -> None:
        """limits: limits of the quarantine. attempts: marks shipments while the
        embedded engine reads them; None marks nothing.
        """
        self._attempts = attempts if warehouse.folder is not None else None
        self._database = database
        self._outbox, self._warehouse = Outbox(database, clock, limits), warehouse
        self._clock = clock
        self._installation_id: str | None = None
        self._marked = 0  # highest shipment number that the event store knows
        self._failures = 0
        self._last_failure: FailedShipment | None = None
        self._end_linger = Event()
        self._linger_s = _LINGER_S
        self._shipped = Condition()
        self._shipping = Lock()
        self.worker = Worker(
            "shipper", self._step, clock, period_s=_POLL_S, last_step=self._last_step
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Ship rows during the context.

        On exit, keeps shipping for a few seconds. Remaining rows wait for the next start.
        """
        async with self.worker.running():
            try:
                yield
            finally:
                self._end_linger.set()

    def wake(self) -> None:
        """Start shipping now. Never blocks."""
        self.worker.wake()

    def wait_until_shipped(self, timeout_s: float, up_to: int | None = None) -> bool:
        """Wait until everything acknowledged before this call is in the warehouse, and in the
        replicas that queries read.

        Returns False after `timeout_s`. Blocks, so call this from a worker thread. Reads the
        outbox, which also contains events accepted by other nodes.

        up_to: number of the last bundle to wait for, instead of everything. It need not be in
        every replica.
        """
        newest = self._outbox.newest() if up_to is None else up_to
        deadline_s = monotonic() + timeout_s
        while newest is not None and self._outbox.has_bundles_up_to(newest):
            left_s = deadline_s - monotonic()
            if left_s <= 0:
                return False
            self._end_linger.set()
            self.worker.wake()
            with self._shipped:
                self._shipped.wait(min(left_s, 0.05))
        return up_to is not None or self.reads_everything(max(0.0, deadline_s - monotonic()))

    def reads_everything(self, timeout_s: float) -> bool:
        """Wait until queries read everything that is in the event store now. Blocks.

        Looks at least once, and returns False after `timeout_s`: the replicas that are read lag.
        """
        if self._warehouse.cluster is None:
            return True
        return await_replicas(self._database, self._warehouse, monotonic() + timeout_s)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Keep rows out of the warehouse during the context. New rows wait in the outbox."""
        with self._shipping:
            yield

    def installation_id(self) -> str:
        """Return the ID of this metadata DB, which is part of every token."""
        if self._installation_id is None:
            self._installation_id = self._outbox.installation_id()
        return self._installation_id

    def shipments(self) -> Shipments:
        """Return the numbers of the shipments. Blocks; raises the metadata DB's errors."""
        return self._outbox.shipments()

    def outbox_state(self) -> OutboxState:
        """Return the size of the outbox and the last failure. Blocks; raises the store's errors."""
        return self._outbox.state()._replace(
            failures=self._failures, last_failure=self._last_failure
        )

    def ship(self, until_s: float = inf) -> None:
        """Ship everything that is waiting now. Raises the stores' errors, without losing rows.

        until_s: monotonic time after which no new shipment starts; by default, shipping continues
        until the service stops.
        """
        newest = self._outbox.newest()
        if newest is None:
            return
        for target in COLUMNS:
            while self._may_continue(until_s) and (
                self._ship_next(target) or self._outbox.cut(target, newest, _SHIPMENT_BUNDLES)
            ):
                pass

    def _may_continue(self, until_s: float) -> bool:
        self.worker.report_progress()
        return not self.worker.is_stopping if until_s == inf else monotonic() < until_s

    def _ship_next(self, target: Target) -> bool:
        with self._shipping, self._outbox.next_shipment(target) as shipment:
            if shipment is None:
                return False
            self._mark(shipment.number)
            with self._attempt(shipment) as deaths:
                self._send(shipment, target, deaths)
        with self._shipped:
            self._shipped.notify_all()
        return True

    @contextmanager
    def _attempt(self, shipment: Shipment) -> Iterator[int]:
        """Mark a shipment while it is sent. Yields how often the process died during this."""
        if self._attempts is None:
            yield 0
            return
        subject = f"shipment-{shipment.number}"
        deaths = self._attempts.deaths(subject)
        with self._attempts.attempt(subject):
            yield deaths
        self._attempts.forget(subject)

    def _send(self, shipment: Shipment, target: Target, deaths: int) -> None:
        """Insert the rows of a shipment, as far as the engine accepts them."""
        for number, piece in enumerate(_pieces(shipment)):
            if deaths and not self._holds_any(target, piece) and _is_given_up(shipment, deaths):
                break
            token = f"{self.installation_id()}-{shipment.number}-{number}"
            try:
                self._insert(target, piece, token)
            except StoreUnavailable:
                self._note_failure("unavailable")
                raise
            except QueryFailed as error:
                self._note_failure(f"engine error {error.code}")
                self._require_fault_of_rows(error, target, piece)
                _note_refusal(shipment, error)
                break
            shipment.shipped += piece.bundles
            _SHIPMENTS.labels("stored").inc()

    def _mark(self, number: int) -> None:
        """Send a shipment's number to the event store before its rows. See `newest_shipments`."""
        if number <= self._marked:
            return
        row = json.encode({"installation": self.installation_id(), "number": number})
        try:
            self._warehouse.insert_json_rows(_MARKS, row, _MARK_COLUMNS, f"mark-{number}")
        except (StoreUnavailable, QueryFailed) as error:
            is_away = isinstance(error, StoreUnavailable)
            self._note_failure("unavailable" if is_away else f"engine error {error.code}")
            raise
        self._marked = number

    def _insert(self, target: Target, piece: "_Piece", token: str) -> None:
        columns = COLUMNS[target]
        if self._warehouse.insert_json_rows(target, piece.rows, columns, token):
            return
        # The engine knows the token, but if it was killed, the rows may still be missing.
        if not self._holds_any(target, piece):
            self._warehouse.insert_json_rows(target, piece.rows, columns, f"{token}-again")

    def _note_failure(self, error: str) -> None:
        _SHIPMENTS.labels("failed").inc()
        self._failures += 1
        self._last_failure = FailedShipment(self._clock(), error)

    def _require_fault_of_rows(self, error: QueryFailed, target: Target, piece: "_Piece") -> None:
        """Raise the error again unless these rows may have caused it. If they have, half of them
        may succeed.

        Half of the rows also need less memory. An engine that cannot write at all, or that failed
        after storing the rows, must get the same shipment again.
        """
        may_be_rows = error.code in _FAULTS_OF_ROWS or error.code == MEMORY_LIMIT_EXCEEDED
        if not may_be_rows or not self._warehouse.accepts_inserts():
            raise error
        if self._holds_any(target, piece):
            raise error

    def _holds_any(self, target: Target, piece: "_Piece") -> bool:
        """Whether the warehouse has rows of a piece. Always False for merges and traits, which are
        safe to repeat.

        Several rows are checked, because one shard may have stored its rows while another failed.
        """
        if target in (Target.ALIASES, Target.TRAITS):
            return False
        lines = piece.rows.split(b"\n")
        checked = [*lines[:: len(lines) // _CHECKED_ROWS + 1], lines[-1]]
        rows = [json.decode(line) for line in checked]
        names = ("website_id", "name", "event_id", "link_id", "click_id")
        parameters = {f"{name}s": [row.get(name, "") for row in rows] for name in names}
        name = "holds_events" if target is Target.EVENTS else "holds_clicks"
        [[count]] = self._warehouse.query(load("penstock.events", name), parameters)[1]
        return bool(count)

    def _step(self) -> None:
        self._end_linger.wait(self._linger_s)
        self._end_linger.clear()
        began_s = monotonic()
        self.ship()
        self._warehouse.resume_merges()
        pause_s = (monotonic() - began_s) * _LINGER_FACTOR
        self._linger_s = min(max(_LINGER_S, pause_s), _LONGEST_LINGER_S)

    def _last_step(self) -> None:
        self.ship(until_s=monotonic() + _STOP_S)


class _Piece(NamedTuple):
    """The rows of one insert, one per line. bundles: number of the shipment's bundles in this
    piece.
    """

    rows: bytes
    bundles: int


def _pieces(shipment: Shipment) -> Iterator[_Piece]:
    """Divide a shipment's rows into inserts of limited size. Repeating a shipment yields the same
    pieces.
    """
    piece: list[bytes] = []
    size = 0
    for bundle in shipment.bundles:
        lines = bundle.lines.encode()
        if piece and size + len(lines) > _PIECE_BYTES:
            yield _piece_of(shipment, piece)
            piece, size = [], 0
        piece.append(lines)
        size += len(lines)
    if piece:
        yield _piece_of(shipment, piece)


def _piece_of(shipment: Shipment, bundles: Sequence[bytes]) -> _Piece:
    rows = b"\n".join(bundles)
    if shipment.target is Target.EVENTS:
        rows = _numbered(rows, shipment.number)
    return _Piece(rows, len(bundles))


def _numbered(rows: bytes, number: int) -> bytes:
    """Add the number of their shipment to rows, one JSON object per line."""
    start = b'{"shipment":%d,' % number
    return start + rows[1:].replace(b"\n{", b"\n" + start)


def _note_refusal(shipment: Shipment, error: QueryFailed) -> None:
    """Record which rows the engine refused: a single row to quarantine, or several rows to split in
    half.

    If memory is insufficient even for a single row, raises the error again, because the row is not
    at fault.
    """
    code = str(error.code)
    if (row := _single_row(shipment, code)) is None:
        return
    if error.code == MEMORY_LIMIT_EXCEEDED:
        raise error
    _quarantine(shipment, row, code, str(error).splitlines()[0][:_MAX_MESSAGE_CHARS])


def _is_given_up(shipment: Shipment, deaths: int) -> bool:
    """Record what happens to rows during which the process died, as `_note_refusal` does.

    Returns False for a single row that may be tried again, because the process may have died for
    another reason.
    """
    row = _single_row(shipment, _DIED)
    if row is None:
        return True
    if deaths < _MAX_DEATHS_OF_ROW:
        return False
    _quarantine(shipment, row, _DIED, f"The service stopped {deaths} times while it stored this.")
    return True


def _single_row(shipment: Shipment, code: str) -> str | None:
    """Return the only remaining row of a shipment; None for several, which are split in half."""
    rest = shipment.bundles[shipment.shipped :]
    if len(rest) > 1 or "\n" in rest[0].lines:
        log.warning("shipment_halved", shipment=shipment.number, code=code)
        return None
    return rest[0].lines


def _quarantine(shipment: Shipment, row: str, code: str, message: str) -> None:
    shipment.refused = UnshippableRow(row, code, message)
    log.error("row_quarantined", shipment=shipment.number, target=shipment.target, code=code)
