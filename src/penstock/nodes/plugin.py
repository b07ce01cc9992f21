"""Wiring of the background work that each node does for the metadata DB."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.base.worker import Backoff, Worker
from penstock.core import Core, Room


@dataclass(frozen=True)
class NodesRoom(Room):
    """Background workers of a node.

    change_listener: listens for changes that other nodes announce; None with SQLite, which has only
    one node. checkpoints: copies SQLite's log into the database file; None with PostgreSQL.
    """

    change_listener: Worker | None = None
    checkpoints: Worker | None = None

    def workers(self) -> Sequence[Worker]:
        return [worker for worker in (self.change_listener, self.checkpoints) if worker is not None]


def build(core: Core) -> NodesRoom:
    database = core.database
    if database.is_sqlite:
        return NodesRoom(checkpoints=Worker("checkpoints", database.checkpoint, core.clock))
    return NodesRoom(
        change_listener=Worker(
            "change_listener",
            database.changes.receive,
            core.clock,
            backoff=Backoff(longest_s=2.0),
        )
    )
