"""The room of the public edge."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from penstock.base.metrics import PolledGauge
from penstock.core import Core, Room
from penstock.edge.connections import Connections
from penstock.edge.layer import AddressBudget
from penstock.edge.watchdog import LoopWatchdog


@dataclass(frozen=True)
class EdgeRoom(Room):
    connections: Connections
    address_budget: AddressBudget
    watchdog: LoopWatchdog

    def gauges(self) -> Sequence[PolledGauge]:
        return [
            PolledGauge(
                "penstock_edge_connections", "Open connections.", lambda: len(self.connections)
            ),
            PolledGauge(
                "penstock_edge_requests_under_way",
                "Requests that are not yet answered, without those of trusted proxies themselves.",
                self.address_budget.requests_in_progress,
            ),
        ]

    def lifespans(self) -> Sequence[AbstractAsyncContextManager[None]]:
        return [self.watchdog.running()]


def build(core: Core) -> EdgeRoom:
    return EdgeRoom(
        connections=Connections(core.settings),
        address_budget=AddressBudget(core.settings, core.clock),
        watchdog=LoopWatchdog(),
    )
