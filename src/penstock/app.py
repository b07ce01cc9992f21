"""Putting it together: stores, services, routes."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from litestar import HttpMethod, Litestar, Request, Response, get
from litestar.config.app import AppConfig
from litestar.di import NamedDependency, Provide
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp
from sqlalchemy import Connection
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from penstock.accounts import callers, limits_routes
from penstock.accounts import routes as account_routes
from penstock.accounts.limits import LimitService
from penstock.accounts.people import own_routes
from penstock.accounts.people import routes as people_routes
from penstock.accounts.people.invitations import InvitationService
from penstock.accounts.people.members import MemberService
from penstock.accounts.people.own import OwnAccountService
from penstock.accounts.service import AccountService
from penstock.activity import routes as activity_routes
from penstock.activity.live import LiveService
from penstock.activity.visitors import VisitorService
from penstock.base.clock import Clock, system_clock
from penstock.base.errors import Fault, NotFound
from penstock.base.ids import ScopeId, VisitorId, WebsiteId, WorkspaceId
from penstock.catalogue import routes as catalogue_routes
from penstock.catalogue.service import CatalogueService
from penstock.events import routes as event_routes
from penstock.events.deletions import routes as deletion_routes
from penstock.events.deletions.model import DeletionSpan
from penstock.events.deletions.service import DeletionService
from penstock.events.fastlane import FastLane
from penstock.events.imports import routes as import_routes
from penstock.events.imports.model import ImportSpan
from penstock.events.imports.service import ImportService
from penstock.events.intake import Intake
from penstock.events.model import Target
from penstock.events.service import EventService
from penstock.events.shipper import Shipper
from penstock.events.spool import Spool
from penstock.funnels.comparisons import routes as compare_routes
from penstock.funnels.comparisons.service import CompareService
from penstock.funnels.goals import routes as goals_routes
from penstock.funnels.goals.service import GoalService
from penstock.funnels.insights import routes as insights_routes
from penstock.funnels.insights.service import InsightService
from penstock.funnels.results import routes as results_routes
from penstock.funnels.results.asked import provide_asked_funnel
from penstock.funnels.results.asking import Asker
from penstock.funnels.results.coverage import Gap
from penstock.funnels.results.export import ExportService
from penstock.funnels.results.service import ResultsService
from penstock.funnels.saved import routes as funnel_routes
from penstock.funnels.saved.service import FunnelService
from penstock.funnels.units import routes as units_routes
from penstock.funnels.units.service import UnitService
from penstock.funnels.units.tracing import TraceService
from penstock.http.answers import answer
from penstock.http.bodies import bad_parameter
from penstock.http.openapi import openapi_document_of
from penstock.http.problems import EXCEPTION_HANDLERS
from penstock.jobs import routes as job_routes
from penstock.jobs.answered import provide_answered
from penstock.jobs.jobs import Jobs
from penstock.links import association_routes, qr_routes, resolve_routes, stats_routes
from penstock.links import routes as link_routes
from penstock.links.association import AssociationService
from penstock.links.claims import ClickKeeper
from penstock.links.networks import Networks
from penstock.links.opening import LinkOpener
from penstock.links.public_routes import PublicSide, open_link
from penstock.links.resolver import Resolver, forget_opens
from penstock.links.service import LinkService
from penstock.links.stats import StatsService
from penstock.metadb.database import Database
from penstock.providers import routes as provider_routes
from penstock.providers.service import ProviderService, forget_customers
from penstock.settings import Settings
from penstock.warehouse.client import Warehouse
from penstock.web import routes as web_routes
from penstock.web.refusals import on_unknown_address


@dataclass(frozen=True)
class Services:
    """Everything that a running Penstock is made of."""

    settings: Settings
    clock: Clock
    database: Database
    warehouse: Warehouse
    accounts: AccountService
    members: MemberService
    invitations: InvitationService
    own_account: OwnAccountService
    limits: LimitService
    jobs: Jobs
    intake: Intake
    shipper: Shipper
    events: EventService
    imports: ImportService
    providers: ProviderService
    deletions: DeletionService
    goals: GoalService
    funnels: FunnelService
    results: ResultsService
    units: UnitService
    traces: TraceService
    insights: InsightService
    exports: ExportService
    comparisons: CompareService
    catalogue: CatalogueService
    visitors: VisitorService
    live: LiveService
    associations: AssociationService
    links: LinkService
    clicks: Spool
    link_stats: StatsService
    opener: LinkOpener
    resolver: Resolver


def build_services(settings: Settings, clock: Clock = system_clock, warehouse: Warehouse | None = None) -> Services:
    """Open both stores and bring their schemas to this version. warehouse: one that is open already, instead of the settings' own."""
    settings.data.mkdir(parents=True, exist_ok=True)
    database = Database(settings.metadb_url)
    database.migrate()
    warehouse = warehouse or Warehouse(data=settings.data, url=settings.warehouse_url, readers=settings.queries_at_once)
    warehouse.create_schema()
    accounts = AccountService(database, settings, clock)
    limits = LimitService(database, settings)
    shipper = Shipper(database, warehouse, clock)
    intake = Intake(database, clock, on_stored=shipper.wake, dedupe_days=settings.dedupe_days)
    imports = ImportService(database, accounts, intake, settings, clock)
    deletions = DeletionService(database, warehouse, accounts, shipper, settings, clock, forget_elsewhere=_forget_elsewhere)
    funnels = FunnelService(database, warehouse, settings, clock)
    read_gaps = partial(_gaps, imports, deletions)
    asker = Asker(warehouse, accounts, funnels, settings, clock, wait_until_shipped=shipper.wait_until_shipped)
    units = UnitService(asker)
    results = ResultsService(asker, read_gaps=read_gaps)
    comparisons = CompareService(asker, read_gaps=read_gaps)
    links = LinkService(database, accounts, settings, clock)
    clicks = Spool(database, settings.data / "clicks", Target.CLICKS, clock, on_stored=shipper.wake, take=ClickKeeper(settings).take)
    return Services(
        settings=settings,
        clock=clock,
        database=database,
        warehouse=warehouse,
        accounts=accounts,
        members=MemberService(database),
        invitations=InvitationService(database, settings, clock),
        own_account=OwnAccountService(database, clock),
        limits=limits,
        jobs=Jobs(warehouse, limits, clock, queries_at_once=settings.queries_at_once),
        intake=intake,
        shipper=shipper,
        events=EventService(accounts, intake, settings, clock),
        imports=imports,
        providers=ProviderService(database, accounts, intake, settings, clock),
        deletions=deletions,
        goals=GoalService(database, warehouse, settings, clock),
        funnels=funnels,
        results=results,
        units=units,
        traces=TraceService(asker, units),
        insights=InsightService(asker),
        exports=ExportService(asker),
        comparisons=comparisons,
        catalogue=CatalogueService(warehouse, accounts, settings, wait_until_shipped=shipper.wait_until_shipped),
        visitors=VisitorService(database, warehouse, accounts, settings, clock, wait_until_shipped=shipper.wait_until_shipped),
        live=LiveService(database, warehouse, accounts, clock, wait_until_shipped=shipper.wait_until_shipped),
        associations=AssociationService(accounts, settings),
        links=links,
        clicks=clicks,
        link_stats=StatsService(warehouse, links, settings, clock, wait_until_shipped=partial(_wait_for_clicks, clicks, shipper)),
        opener=LinkOpener(links, Networks(database, clock), settings, clock, keep=clicks.add),
        resolver=Resolver(database, accounts, intake, clicks, settings, clock),
    )


def _wait_for_clicks(clicks: Spool, shipper: Shipper, timeout_s: float) -> bool:
    """Wait until clicks and events that were acknowledged before this call are in the warehouse; False when that took too long."""
    return clicks.wait_until_stored(timeout_s) and shipper.wait_until_shipped(timeout_s)


def _forget_elsewhere(db: Connection, scope_id: ScopeId, visitor_ids: Sequence[VisitorId]) -> None:
    """What rooms above the events know of visitors, in the transaction that deletes them."""
    forget_customers(db, scope_id, visitor_ids)
    forget_opens(db, scope_id, visitor_ids)


def _gaps(imports: ImportService, deletions: DeletionService, workspace_id: WorkspaceId, website_ids: Collection[WebsiteId]) -> list[Gap]:
    """What imports and deletions did to the history of some websites, as the coverage of a funnel tells it; oldest first."""
    spans: list[tuple[str, ImportSpan | DeletionSpan]] = [
        *(("import", span) for span in imports.spans(workspace_id, website_ids)),
        *(("deletion", span) for span in deletions.spans(workspace_id, website_ids)),
    ]
    gaps = [
        Gap(kind, span.website_id, span.from_ms, span.to_ms, span.reach, span.at_ms, span.state, note=span.note) for kind, span in spans
    ]
    return sorted(gaps, key=lambda gap: gap.at_ms)


@get("/health/live", sync_to_thread=False)
def live() -> Response[bytes]:
    return answer({"status": "live"})


@get("/health/ready", sync_to_thread=True)
def ready(database: NamedDependency[Database], warehouse: NamedDependency[Warehouse]) -> Response[bytes]:
    stores = {"database": database.answers(), "warehouse": warehouse.answers()}
    ok = all(stores.values())
    return answer({"status": "ready" if ok else "unavailable", **stores}, status=200 if ok else 503)


@get("/api/openapi.json", sync_to_thread=False)
def openapi(request: Request[Any, Any, Any]) -> Response[bytes]:
    return answer(openapi_document_of(request.app))


async def check_address(request: Request[Any, Any, Any]) -> None:
    """No ID has a NUL character, and PostgreSQL takes none in a text; a route that describes no parameters takes none.

    Routes open to all are left out: who links to them may add parameters of their own. A coroutine, or the framework would run it in a
    thread.
    """
    if "\x00" in request.scope["path"]:
        raise NotFound("There is nothing at this address.")
    described = request.route_handler.opt.get("described")
    if request.scope["query_string"] and described and not described["open"] and described["query"] is None:
        raise bad_parameter(*(Fault(name, "unknown_field", "There is no such parameter.") for name in dict(request.query_params)))


def take_head(config: AppConfig) -> AppConfig:
    """What answers GET answers HEAD as well. To that the server sends no body."""
    for handler in config.route_handlers:
        if isinstance(handler, HTTPRouteHandler) and HttpMethod.GET in handler.http_methods:
            handler.http_methods.add(HttpMethod.HEAD)
    return config


def _provided(services: Services, name: str) -> Provide:
    """One of the services, as what a handler asks for by its name."""

    def provide() -> Any:
        return getattr(services, name)

    return Provide(provide, sync_to_thread=False)


def build_app(services: Services) -> ASGIApp:
    """The ASGI application over open services; closes them when it stops."""
    return with_short_ways(build_routes(services), services)


def with_short_ways(routes: ASGIApp, services: Services) -> ASGIApp:
    """Plain posts and plain visits of links are answered before the routes. Whose address a request came from, posts do not ask."""
    public_side: Any = PublicSide(routes, services.opener)  # uvicorn and litestar have types of their own for the same interface
    proxied: Any = ProxyHeadersMiddleware(public_side, trusted_hosts=services.settings.trusted_proxies)
    return FastLane(proxied, services.events)


def build_routes(services: Services) -> Litestar:
    """The application without the short ways."""

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncIterator[None]:
        async with (
            services.accounts.running(),
            services.shipper.running(),
            services.clicks.running(),
            services.deletions.running(),
            services.intake.running(),
            services.imports.running(),
            services.resolver.running(),
            services.jobs.running(),
        ):
            yield
        services.warehouse.close()
        services.database.close()

    return Litestar(
        request_max_body_size=None,  # every route reads its body by the limits of the settings (`penstock.http.bodies`)
        route_handlers=[
            live,
            ready,
            openapi,
            *account_routes.ROUTES,
            *people_routes.ROUTES,
            *own_routes.ROUTES,
            *limits_routes.ROUTES,
            *job_routes.ROUTES,
            *event_routes.ROUTES,
            *import_routes.ROUTES,
            *provider_routes.ROUTES,
            *deletion_routes.ROUTES,
            *goals_routes.ROUTES,
            *funnel_routes.ROUTES,
            *results_routes.ROUTES,
            *units_routes.ROUTES,
            *insights_routes.ROUTES,
            *compare_routes.ROUTES,
            *catalogue_routes.ROUTES,
            *activity_routes.ROUTES,
            *association_routes.ROUTES,
            *link_routes.ROUTES,
            *qr_routes.ROUTES,
            *stats_routes.ROUTES,
            *resolve_routes.ROUTES,
            open_link,
            *web_routes.ROUTES,
        ],
        dependencies={
            **{one.name: _provided(services, one.name) for one in fields(Services)},
            "answered": Provide(provide_answered),
            "funnel": Provide(provide_asked_funnel),
            "caller": Provide(callers.provide_caller),
            "signed_in": Provide(callers.provide_signed_in),
        },
        exception_handlers=EXCEPTION_HANDLERS | {HTTPException: on_unknown_address},
        before_request=check_address,
        lifespan=[lifespan],
        on_app_init=[take_head],
        openapi_config=None,
        logging_config=None,
    )
