"""Builds the application from its rooms and connects them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from types import SimpleNamespace

from litestar import Litestar
from litestar.datastructures import State
from litestar.exceptions import HTTPException
from litestar.types import ASGIApp
from sqlalchemy import Connection

from penstock.accounts import plugin as accounts_room
from penstock.activity import plugin as activity_room
from penstock.alerts import plugin as alerts_room
from penstock.alerts.digests import plugin as digests_room
from penstock.annotations import plugin as annotations_room
from penstock.assistants import plugin as assistants_room
from penstock.backup import plugin as backup_room
from penstock.base.attempts import Attempts
from penstock.base.clock import Clock, system_clock
from penstock.base.errors import StoreUnavailable
from penstock.base.fair_queue import FairQueue, QueueLimits
from penstock.base.ids import ScopeId, VisitorId
from penstock.catalogue import plugin as catalogue_room
from penstock.core import Core, Room
from penstock.disk import plugin as disk_room
from penstock.edge import plugin as edge_room
from penstock.edge.layer import EdgeLayer
from penstock.events import plugin as events_room
from penstock.events.imports.dry_runs.summary_texts import summary_texts
from penstock.events.imports.service import rejected_texts
from penstock.events.quarantine.selection import quarantined_texts
from penstock.exports import plugin as exports_room
from penstock.exports.service import remaining_exports
from penstock.funnels import plugin as funnels_room
from penstock.funnels.saved_cohorts.service import forget_members, visitor_cohorts
from penstock.health import plugin as health_room
from penstock.http import routes as http_routes
from penstock.http.cors import OpenRoutes
from penstock.http.direct import DirectRoutes
from penstock.http.handlers import Objects
from penstock.http.problems import EXCEPTION_HANDLERS
from penstock.identity.profiles.service import PersonNames
from penstock.jobs import plugin as jobs_room
from penstock.jobs.service import forget_responses
from penstock.links import plugin as links_room
from penstock.links.attribution.service import forget_opens, visitor_opens
from penstock.links.link_host import LinkHost
from penstock.metadb.clock import DatabaseClock
from penstock.metadb.secret_box import SecretBox
from penstock.nodes import plugin as nodes_room
from penstock.outbound import plugin as outbound_room
from penstock.providers import plugin as providers_room
from penstock.providers.service import forget_customers, visitor_customers
from penstock.receipts import plugin as receipts_room
from penstock.receipts.service import find_receipt
from penstock.segment import plugin as segment_room
from penstock.segment.replays import read_refused_call
from penstock.settings import Settings
from penstock.shares import plugin as shares_room
from penstock.stores import Stores, open_database, open_stores
from penstock.warehouse.client import Warehouse
from penstock.web import plugin as web_room
from penstock.web.error_pages import on_unknown_address
from penstock.webhooks import plugin as webhooks_room
from penstock.webhooks.service import forget_messages, waiting_messages

ROOMS: tuple[type[Room], ...] = (
    edge_room.EdgeRoom,
    health_room.HealthRoom,
    nodes_room.NodesRoom,
    accounts_room.AccountsRoom,
    disk_room.DiskRoom,
    outbound_room.OutboundRoom,
    jobs_room.JobsRoom,
    events_room.EventsRoom,
    providers_room.ProvidersRoom,
    segment_room.SegmentRoom,
    funnels_room.FunnelsRoom,
    catalogue_room.CatalogueRoom,
    activity_room.ActivityRoom,
    links_room.LinksRoom,
    assistants_room.AssistantsRoom,
    exports_room.ExportsRoom,
    digests_room.DigestsRoom,
    annotations_room.AnnotationsRoom,
    shares_room.SharesRoom,
    receipts_room.ReceiptsRoom,
    webhooks_room.WebhooksRoom,
    alerts_room.AlertsRoom,
    backup_room.BackupRoom,
    web_room.WebRoom,
)

_OPEN_ROUTES = OpenRoutes(route for room in ROOMS for route in room.routes)
_DIRECT_ROUTES = [route for room in ROOMS for route in room.direct_routes]

_VALIDATION = QueueLimits(slots=4, slots_per_key=2, waiting=400, waiting_per_key=50)
"""Limits of validation. It runs in Python, so more threads would only share one core."""
_DEFINITION_CHECKS = QueueLimits(slots=2, slots_per_key=1, waiting=200, waiting_per_key=50)


_FORGET = (
    *(forget_responses, forget_customers, forget_members, forget_opens),
    forget_messages,
)
"""Delete data about visitors in the rooms above events, in the deletion's transaction."""

_READ_PERSON = (
    *(visitor_customers, visitor_opens, visitor_cohorts, waiting_messages),
    *(quarantined_texts, rejected_texts, summary_texts),
)
"""Read data about a person from the rooms that activity does not import."""


class Services(SimpleNamespace):
    """Holds the settings, clock, stores and room services under the names that handlers request."""

    def __init__(self, core: Core, rooms: Sequence[Room]) -> None:
        services = {name: service for room in rooms for name, service in room.services().items()}
        super().__init__(rooms=rooms, **core._asdict(), **services)


def build_services(
    settings: Settings,
    clock: Clock | None = None,
    warehouse: Warehouse | None = None,
    stores: Stores | None = None,
) -> Services:
    """Build every room over both stores, which `penstock.stores.migrate` must have upgraded.

    clock: None for the time of the metadata DB, which all nodes share. stores: open stores to use
    instead of opening them from the settings. warehouse: an open warehouse to use together with the
    database from the settings.
    """
    if warehouse is not None:
        stores = Stores(
            open_database(settings),
            warehouse,
        )
    database, warehouse = stores or open_stores(settings)
    if clock is None:
        clock = DatabaseClock(database, system_clock)
        with suppress(StoreUnavailable):  # A worker tries again.
            clock.compare()
    core = Core(
        settings,
        clock,
        database,
        warehouse,
        validation=FairQueue("requests", _VALIDATION),
        definition_checks=FairQueue("requests", _DEFINITION_CHECKS),
        attempts=Attempts(settings.data / "attempts", clock),
    )
    nodes = nodes_room.build(core)
    box = SecretBox.from_settings(settings)
    accounts = accounts_room.build(core, box)
    disk = disk_room.build(core)
    outbound = outbound_room.build(core)
    jobs = jobs_room.build(core, accounts, disk)
    events = events_room.build(
        core,
        accounts,
        disk,
        box,
        forget_in_other_rooms=_forget_in_other_rooms,
        read_call=read_refused_call,
        read_exports=remaining_exports,
    )
    providers = providers_room.build(core, accounts, events, box)
    segment = segment_room.build(core, accounts, events)
    wait_until_shipped = events.shipper.wait_until_shipped
    links = links_room.build(core, accounts, events)
    people = PersonNames(database, accounts.limits)
    funnels = funnels_room.build(
        core,
        accounts,
        wait_until_shipped=wait_until_shipped,
        read_shipments=events.shipper.shipments,
        reads_everything=events.shipper.reads_everything,
        read_people=people.read,
        read_gaps=events.gaps,
        find_receipt=partial(find_receipt, database, settings.base_url),
        read_lost_events=events.quarantine.lost_on_devices,
        read_slugs=links.links.slugs,
        wait_for_clicks=partial(
            links.link_statistics.wait_until_shipped, settings.limits.fresh_wait_s
        ),
    )
    catalogue = catalogue_room.build(core, accounts, wait_until_shipped=wait_until_shipped)
    activity = activity_room.build(
        core,
        accounts,
        people,
        wait_until_shipped=wait_until_shipped,
        read_other_rooms=_READ_PERSON,
        read_lost_events=events.quarantine.lost_on_devices,
    )
    alerts = alerts_room.build(core, accounts, events, funnels, catalogue, outbound.outbound, box)
    exports = exports_room.build(core, accounts, wait_until_shipped=wait_until_shipped)
    shares = shares_room.build(core, accounts, funnels)
    receipts = receipts_room.build(core, accounts, funnels, box)
    digests = digests_room.build(core, accounts, funnels, box)
    annotations = annotations_room.build(core, accounts, funnels)
    webhooks = webhooks_room.build(core, accounts, funnels, outbound, box)
    backup = backup_room.build(core, events)
    edge = edge_room.build(core)
    rooms: list[Room] = [
        *(edge, nodes, accounts, events, providers, segment, funnels, catalogue, activity),
        *(links, disk, outbound, jobs, exports, annotations, shares, receipts, alerts, digests),
        *(webhooks, backup),
    ]
    health = health_room.build(
        core,
        workers=[worker for room in rooms for worker in room.workers()],
        gauges=[gauge for room in rooms for gauge in room.gauges()],
        outbox=events.shipper.outbox_state,
        outcomes=funnels.outcome_worker.state,
        missing=events.losses.state,
    )
    return Services(core, [health, *rooms, assistants_room.AssistantsRoom(), web_room.WebRoom()])


def build_app(services: Services) -> EdgeLayer:
    """Return the ASGI application. It closes the services when it stops."""
    return with_edge(build_routes(services), services)


def with_edge(framework: ASGIApp, services: Services) -> EdgeLayer:
    """Add the direct routes in front of the framework, and wrap both in the edge."""
    app: ASGIApp = DirectRoutes(framework, _DIRECT_ROUTES, services)
    if services.settings.link_host is not None:
        app = LinkHost(app, services.settings.link_host)
    if services.settings.otlp_endpoint is not None:
        from penstock.edge.tracing import TracedApp  # the packages for tracing are optional

        app = TracedApp(app)
    return EdgeLayer(
        app,
        services.address_budget,
        services.body_memory,
        _OPEN_ROUTES,
        services.settings.trusted_proxies,
    )


def build_routes(services: Services) -> Litestar:
    """Return the application without the edge and the direct routes."""

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncIterator[None]:
        try:
            async with AsyncExitStack() as stack:
                for room in services.rooms:
                    for running in room.lifespans():
                        await stack.enter_async_context(running)
                yield
                # Stop all together; each may be waiting on a store.
                for room in services.rooms:
                    for worker in room.workers():
                        worker.begin_stop()
        finally:
            services.warehouse.close()
            services.database.close()

    names = [*Core._fields, *(name for room in ROOMS for name in room.service_names())]
    handlers = [*http_routes.ROUTES, *(handler for room in ROOMS for handler in room.routes)]
    providers = {
        name: provider for room in ROOMS for name, provider in room.request_objects.items()
    }
    objects = Objects(services, names, providers)
    objects.check(handlers)
    return Litestar(
        state=State({"objects": objects}),
        request_max_body_size=None,  # routes limit bodies by the settings (`penstock.http.bodies`)
        route_handlers=handlers,
        exception_handlers=EXCEPTION_HANDLERS | {HTTPException: on_unknown_address},
        before_request=http_routes.check_request,
        lifespan=[lifespan],
        on_app_init=[http_routes.answer_head],
        openapi_config=None,
        logging_config=None,
    )


def _forget_in_other_rooms(
    db: Connection, scope_id: ScopeId, visitor_ids: Sequence[VisitorId]
) -> dict[str, int]:
    """Delete data about visitors in the rooms above events, in the deletion's transaction.

    Returns the number of deleted records by kind.
    """
    counts = dict[str, int]()
    for forget in _FORGET:
        counts |= forget(db, scope_id, visitor_ids)
    return counts
