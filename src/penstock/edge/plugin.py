"""Wiring of the public edge."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from penstock.base.metrics import PolledGauge
from penstock.core import Core, Room
from penstock.edge.connections import Connections
from penstock.edge.layer import AddressBudget
from penstock.edge.watchdog import LoopWatchdog
from penstock.http.body_memory import BodyMemory


@dataclass(frozen=True)
class EdgeRoom(Room):
    connections: Connections
    address_budget: AddressBudget
    body_memory: BodyMemory
    watchdog: LoopWatchdog

    def gauges(self) -> Sequence[PolledGauge]:
        return [
            PolledGauge(
                "penstock_edge_connections", "Open connections.", lambda: len(self.connections)
            ),
            PolledGauge(
                "penstock_edge_requests_under_way",
                "Requests in progress, except those of trusted proxies themselves.",
                self.address_budget.requests_in_progress,
            ),
            PolledGauge(
                "penstock_edge_body_bytes",
                "Large request bodies in memory, as sent and decompressed.",
                self.body_memory.held_bytes,
            ),
        ]

    def lifespans(self) -> Sequence[AbstractAsyncContextManager[None]]:
        return [self.watchdog.running()]


def build(core: Core) -> EdgeRoom:
    return EdgeRoom(
        connections=Connections(core.settings),
        address_budget=AddressBudget(core.settings, core.clock),
        body_memory=BodyMemory(core.settings.bodies_bytes),
        watchdog=LoopWatchdog(),
    )
