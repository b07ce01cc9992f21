"""Wiring of the background work that each node does for the metadata DB and its own memory."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.base.metrics import PolledGauge
from penstock.base.worker import Backoff, Worker
from penstock.core import Core, Room
from penstock.metadb.clock import COMPARED_EVERY_S, DatabaseClock
from penstock.nodes.memory import PERIOD_S, UnusedMemory


@dataclass(frozen=True)
class NodesRoom(Room):
    """Background workers of a node.

    memory: returns unused memory to the system.
    change_listener: listens for changes that other nodes announce; None with SQLite, which has only
    one node. clock_comparison: compares this machine's clock with that of PostgreSQL's server.
    checkpoints: copies SQLite's log into the database file; None with PostgreSQL.
    """

    memory: Worker
    change_listener: Worker | None = None
    clock_comparison: Worker | None = None
    clock_gauge: PolledGauge | None = None
    checkpoints: Worker | None = None

    def workers(self) -> Sequence[Worker]:
        workers = (self.memory, self.change_listener, self.clock_comparison, self.checkpoints)
        return [worker for worker in workers if worker is not None]

    def gauges(self) -> Sequence[PolledGauge]:
        return [self.clock_gauge] if self.clock_gauge else []


def build(core: Core) -> NodesRoom:
    database = core.database
    look = UnusedMemory(database).look
    memory = Worker("memory", look, core.clock, period_s=PERIOD_S, first_after_s=PERIOD_S)
    if database.is_sqlite:
        return NodesRoom(memory, checkpoints=Worker("checkpoints", database.checkpoint, core.clock))
    listener = Worker(
        "change_listener", database.changes.receive, core.clock, backoff=Backoff(longest_s=2.0)
    )
    clock = core.clock
    if not isinstance(clock, DatabaseClock):
        return NodesRoom(memory, listener)
    return NodesRoom(
        memory,
        listener,
        Worker("clock_comparison", clock.compare, clock, period_s=COMPARED_EVERY_S),
        PolledGauge(
            "penstock_clock_ahead_seconds",
            "Seconds that this machine's clock is ahead of PostgreSQL's; negative if behind.",
            lambda: clock.ahead_ms / 1000,
        ),
    )
