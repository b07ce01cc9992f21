"""Wiring of backups in the application: the fence for commands on this machine."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from penstock.backup.fence import FenceServer
from penstock.base.worker import Worker
from penstock.core import Core, Room
from penstock.events.plugin import EventsRoom


@dataclass(frozen=True)
class BackupRoom(Room):
    fence: FenceServer

    def lifespans(self) -> Sequence[AbstractAsyncContextManager[None]]:
        return [self.fence.running()]

    def workers(self) -> Sequence[Worker]:
        return self.fence.workers


def build(core: Core, events: EventsRoom) -> BackupRoom:
    return BackupRoom(
        fence=FenceServer(core.settings.data, core.warehouse, events.shipper, core.clock)
    )
