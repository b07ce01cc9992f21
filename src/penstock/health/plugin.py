"""Wiring of health checks and metrics."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from penstock.base.metrics import PolledGauge, PolledGauges
from penstock.base.worker import Worker
from penstock.core import Core, Room
from penstock.health import routes
from penstock.health.metrics_server import MetricsServer
from penstock.health.model import MissingEvents, OutboxState, OutcomesHealth
from penstock.health.resources import resource_gauges
from penstock.health.service import HealthService, worker_gauges
from penstock.health.store_sizes import StoreSizes
from penstock.health.trace_exporter import TraceExporter


@dataclass(frozen=True)
class HealthRoom(Room):
    health: HealthService
    metrics_server: MetricsServer
    trace_exporter: TraceExporter
    store_sizes: StoreSizes

    routes = routes.ROUTES

    def workers(self) -> Sequence[Worker]:
        return [self.store_sizes.worker]

    def lifespans(self) -> Sequence[AbstractAsyncContextManager[None]]:
        outputs = [self.trace_exporter.running(), self.metrics_server.running()]
        return [*outputs, *super().lifespans()]


def build(
    core: Core,
    workers: Sequence[Worker],
    gauges: Sequence[PolledGauge | PolledGauges],
    outbox: Callable[[], OutboxState],
    outcomes: Callable[[], OutcomesHealth],
    missing: Callable[[], MissingEvents],
) -> HealthRoom:
    """Build the room. workers, gauges: workers and gauges of all other rooms.

    outbox: reads the outbox state; blocks. outcomes, missing: read the state of stored outcomes and
    the number of missing events.
    """
    settings = core.settings
    sizes = StoreSizes(core.database, core.warehouse, core.clock)
    workers = [*workers, sizes.worker]
    size_gauge = PolledGauge(
        "penstock_store_bytes", "Disk use of the stores, by table.", sizes.bytes_by_name, "table"
    )
    return HealthRoom(
        health=HealthService(core, workers, outbox=outbox, outcomes=outcomes, missing=missing),
        store_sizes=sizes,
        trace_exporter=TraceExporter(settings.otlp_endpoint),
        metrics_server=MetricsServer(
            settings.metrics_host,
            settings.metrics_port,
            [*worker_gauges(workers), *resource_gauges(settings.disk_space), size_gauge, *gauges],
        ),
    )
