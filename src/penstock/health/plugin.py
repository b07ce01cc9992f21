"""The room of health checks and metrics."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from penstock.base.metrics import PolledGauge
from penstock.base.worker import Worker
from penstock.core import Core, Room
from penstock.health import routes
from penstock.health.metrics_server import MetricsServer
from penstock.health.service import HealthService, worker_gauges


@dataclass(frozen=True)
class HealthRoom(Room):
    health: HealthService
    metrics_server: MetricsServer

    routes = routes.ROUTES

    def lifespans(self) -> Sequence[AbstractAsyncContextManager[None]]:
        return [self.metrics_server.running()]


def build(core: Core, workers: Sequence[Worker], gauges: Sequence[PolledGauge]) -> HealthRoom:
    """workers, gauges: of all other rooms."""
    stores = {"database": core.database.answers, "warehouse": core.warehouse.answers}
    settings = core.settings
    return HealthRoom(
        health=HealthService(stores, workers, core.clock),
        metrics_server=MetricsServer(
            settings.metrics_host, settings.metrics_port, [*worker_gauges(workers), *gauges]
        ),
    )
