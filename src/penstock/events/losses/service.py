"""Compares the rows of `events` with the ledger in the metadata DB: stored minus removed rows.

When the engine starts, it moves parts that it cannot read out of the table, and only its own log
says so. Other programs may also remove files. If there are fewer rows than expected, events were
lost: reports are incomplete, but the intake continues.

The comparison is exact even while events are shipped and deleted. Rows are in the event store
before the ledger counts them as stored, and the ledger counts them as removed before the deletion
starts. So the event store has at least the rows that the ledger expected before the count, unless a
deletion started in the meantime. Reading the ledger again after the count reveals such a deletion.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import structlog
from anyio import to_thread

from penstock.base.clock import Clock
from penstock.base.errors import StoreUnavailable
from penstock.base.worker import Worker
from penstock.events.losses import store
from penstock.events.losses.model import Comparison, Loss
from penstock.health.model import MissingEvents
from penstock.metadb.database import Database
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import QueryFailed
from penstock.warehouse.queries import load

log = structlog.get_logger()

_WORK = 7305808869229538673
"""Advisory lock number. Only one node compares at a time."""

_SQL = "penstock.events.losses"
_PERIOD_S, _SOON_S = 3600.0, 60.0
_ATTEMPTS = 3
_PAUSE_S = 0.3
_REPLICA_S = 3.0
"""Seconds to wait for replication before counting again."""


class LossService:
    """Finds and records lost events. All methods except `state` block."""

    def __init__(self, database: Database, warehouse: Warehouse, clock: Clock) -> None:
        self._database, self._warehouse, self._clock = database, warehouse, clock
        self._state = MissingEvents(None, None)
        self.worker = Worker(
            "event_rows", self._step, clock, period_s=_PERIOD_S, first_after_s=_PERIOD_S
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Compare now, before the first shipment and the first request, and then hourly.

        If a store is down, the service still starts, and the worker tries again.
        """
        with suppress(StoreUnavailable, QueryFailed):
            if await to_thread.run_sync(self._step) is not None:
                self.worker.wake()
        if self._state.compared_at_ms is None:
            self.worker.wake()
        async with self.worker.running():
            yield

    def state(self) -> MissingEvents:
        """Return the result of the last comparison on this node."""
        return self._state

    def losses(self) -> Sequence[Loss]:
        """List recorded losses, oldest first. Reports use them for their coverage."""
        with self._database.read() as db:
            return store.all_losses(db)

    def accept(self) -> int:
        """Accept the losses found so far. Returns the number of lost rows."""
        with self._database.write() as db:
            return store.accept_found(db, self._clock())

    def compare(self) -> Comparison | None:
        """Compare now, and record missing rows.

        Returns None if there is no result, because another node is comparing or deletions keep
        starting.
        """
        with self._database.exclusive_lock(_WORK) as is_mine:
            comparison = self.measure() if is_mine else None
            if comparison is not None and comparison.missing and self._warehouse.folder is None:
                self.worker.pause(_REPLICA_S)
                comparison = self.measure()
            if comparison is None:
                return None
            now_ms = self._clock()
            self._record(comparison, now_ms)
        self._state = MissingEvents(comparison.missing, now_ms)
        return comparison

    def measure(self) -> Comparison | None:
        """Compare now without changing anything. Returns None if deletions keep starting."""
        for attempt in range(_ATTEMPTS):
            if attempt:
                self.worker.pause(_PAUSE_S)
            with self._database.read() as db:
                before = store.ledger(db)
            mutations = self._open_mutations()
            [[rows]] = self._warehouse.query_at_once(load(_SQL, "stored_rows"))[1]
            with self._database.read() as db:
                after = store.ledger(db)
            if after.removed == before.removed:
                surplus = rows - before.expected
                is_quiet = after == before and before.is_quiet and not mutations
                return Comparison(rows, max(0, -surplus), max(0, surplus), is_quiet)
        return None

    def _open_mutations(self) -> int:
        try:
            [[mutations]] = self._warehouse.query_at_once(load(_SQL, "open_mutations"))[1]
        except StoreUnavailable:
            if self._warehouse.cluster is None:
                raise
            return 1  # The rows can be counted without a replica that is down.
        return int(mutations)

    def _step(self) -> float | None:
        comparison = self.compare()
        is_settled = comparison is not None and (comparison.is_quiet or not comparison.surplus)
        return None if is_settled else _SOON_S

    def _record(self, comparison: Comparison, now_ms: int) -> None:
        """Record missing rows, and add surplus rows to the ledger, so that they are expected.

        There is a surplus if an earlier version did not count rows, or if a crash interrupted a
        deletion, so that the ledger subtracted too many rows.
        """
        with self._database.read() as db:
            missing_before = store.rows_found(db)
        surplus = comparison.surplus if comparison.is_quiet else 0
        if not surplus and comparison.missing == missing_before:
            return
        with self._database.write() as db:
            store.save_found(db, comparison.missing, now_ms)
            store.add_to_ledger(db, stored=surplus)
        if surplus:
            log.info("event_rows_baseline", rows=comparison.rows, surplus=surplus)
        if comparison.missing != missing_before:
            _log_change(comparison, missing_before)


def _log_change(comparison: Comparison, missing_before: int) -> None:
    if comparison.missing > missing_before:
        log.error("events_lost", missing=comparison.missing, rows=comparison.rows)
    else:
        log.info("lost_events_are_back", missing=comparison.missing, rows=comparison.rows)
