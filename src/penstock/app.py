"""Putting it together: stores, services, routes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from litestar import Litestar, Request, Response, get
from litestar.di import Provide

from penstock import __version__
from penstock.base.clock import Clock, system_clock
from penstock.http.answers import answer
from penstock.http.openapi import openapi_document
from penstock.http.problems import EXCEPTION_HANDLERS
from penstock.metadb.database import Database
from penstock.settings import Settings
from penstock.warehouse.client import Warehouse


@dataclass(frozen=True)
class Services:
    """Everything that a running Penstock is made of."""

    settings: Settings
    clock: Clock
    database: Database
    warehouse: Warehouse


def build_services(settings: Settings, clock: Clock = system_clock) -> Services:
    """Open both stores and bring their schemas to this version."""
    settings.data.mkdir(parents=True, exist_ok=True)
    database = Database(settings.metadb_url)
    database.migrate()
    warehouse = Warehouse(data=settings.data, url=settings.warehouse_url)
    warehouse.create_schema()
    return Services(settings=settings, clock=clock, database=database, warehouse=warehouse)


@get("/health/live", sync_to_thread=False)
def live() -> Response[bytes]:
    return answer({"status": "live"})


@get("/health/ready", sync_to_thread=True)
def ready(services: Services) -> Response[bytes]:
    stores = {"database": services.database.answers(), "warehouse": services.warehouse.answers()}
    ok = all(stores.values())
    return answer({"status": "ready" if ok else "unavailable", **stores}, status=200 if ok else 503)


@get("/api/openapi.json", sync_to_thread=False)
def openapi(request: Request[Any, Any, Any]) -> Response[bytes]:
    handlers = [
        (path, handler) for route in request.app.routes for path in [route.path_format] for handler in getattr(route, "route_handlers", [])
    ]
    return answer(openapi_document(handlers, __version__))


def build_app(services: Services) -> Litestar:
    """The ASGI application over open services; closes them when it stops."""

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncIterator[None]:
        yield
        services.warehouse.close()
        services.database.close()

    return Litestar(
        route_handlers=[live, ready, openapi],
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        exception_handlers=EXCEPTION_HANDLERS,
        lifespan=[lifespan],
        openapi_config=None,
        logging_config=None,
    )
