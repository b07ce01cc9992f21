"""The room of health checks."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.base.worker import Worker
from penstock.core import Core, Room
from penstock.health import routes
from penstock.health.service import HealthService


@dataclass(frozen=True)
class HealthRoom(Room):
    health: HealthService

    routes = routes.ROUTES


def build(core: Core, workers: Sequence[Worker]) -> HealthRoom:
    stores = {"database": core.database.answers, "warehouse": core.warehouse.answers}
    return HealthRoom(health=HealthService(stores, workers, core.clock))
