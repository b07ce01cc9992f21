"""Objects that every room is built on, and the parts that a room adds to the application."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

from litestar.handlers import HTTPRouteHandler

from penstock.base.attempts import Attempts
from penstock.base.clock import Clock
from penstock.base.fair_queue import FairQueue
from penstock.base.metrics import PolledGauge, PolledGauges
from penstock.base.worker import Worker
from penstock.metadb.database import Database
from penstock.settings import Settings
from penstock.warehouse.client import Warehouse


class Core(NamedTuple):
    """Settings, time, both open stores, the queues for CPU-heavy work, and the marks of work.

    validation: queue for validating large bodies. definition_checks: queue for checking
    definitions, whose regular expressions must not delay events. The key of both is the workspace.
    attempts: marks the work that is repeated after a restart.
    """

    settings: Settings
    clock: Clock
    database: Database
    warehouse: Warehouse
    validation: FairQueue
    definition_checks: FairQueue
    attempts: Attempts


@dataclass(frozen=True)
class Room:
    """A room in the application: `build` in the room's `plugin` module returns one.

    Each field is a service; handlers request it by the field's name. routes: the room's HTTP
    handlers. direct_routes: the handlers that bypass the framework (`penstock.http.direct`).
    request_objects: what provides the other objects that handlers may name, once for each request
    (`Provider` in `penstock.http.handlers`).
    """

    routes: ClassVar[Sequence[HTTPRouteHandler]] = ()
    direct_routes: ClassVar[Sequence[HTTPRouteHandler]] = ()
    request_objects: ClassVar[Mapping[str, Callable[..., Any]]] = {}

    @classmethod
    def service_names(cls) -> list[str]:
        return [field.name for field in fields(cls)]

    def services(self) -> dict[str, Any]:
        """The room's services by name."""
        return {name: getattr(self, name) for name in self.service_names()}

    def workers(self) -> Sequence[Worker]:
        """Background workers, which `/health/ready` reports."""
        return ()

    def gauges(self) -> Sequence[PolledGauge | PolledGauges]:
        """Metrics for Prometheus that are read at each scrape."""
        return ()

    def lifespans(self) -> Sequence[AbstractAsyncContextManager[None]]:
        """Contexts that are open while the service runs, by default those of the workers. They are
        closed in reverse order.
        """
        return [worker.running() for worker in self.workers()]
