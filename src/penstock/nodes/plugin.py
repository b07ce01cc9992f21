"""The room of nodes: each node listens for changes that other nodes announce."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from penstock.base.worker import Backoff, Worker
from penstock.core import Core, Room


@dataclass(frozen=True)
class NodesRoom(Room):
    """change_listener: None with SQLite, where there is one node."""

    change_listener: Worker | None

    def workers(self) -> Sequence[Worker]:
        return [] if self.change_listener is None else [self.change_listener]

    def lifespans(self) -> Sequence[AbstractAsyncContextManager[None]]:
        return [worker.running() for worker in self.workers()]


def build(core: Core) -> NodesRoom:
    changes = core.database.changes
    if not changes.is_shared:
        return NodesRoom(change_listener=None)
    return NodesRoom(
        change_listener=Worker(
            "change_listener", changes.receive, core.clock, backoff=Backoff(longest_s=2.0)
        )
    )
