"""Wiring of managed links: management, redirects, clicks, attribution and statistics."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial

from penstock.accounts.plugin import AccountsRoom
from penstock.base.worker import Worker
from penstock.core import Core, Room
from penstock.events.plugin import EventsRoom
from penstock.events.shipper import Shipper
from penstock.links.association import routes as association_routes
from penstock.links.association.service import AssociationService
from penstock.links.attribution import routes as attribution_routes
from penstock.links.attribution.claimable_clicks import ClaimableClickWriter
from penstock.links.attribution.service import AttributionService
from penstock.links.clicks.buffer import ClickBuffer
from penstock.links.clicks.quota import ClickQuota
from penstock.links.management import routes as link_routes
from penstock.links.management.addresses import WebUrlRules
from penstock.links.management.service import LinkService
from penstock.links.management.uploads import LinkUploader
from penstock.links.redirect import routes as redirect_routes
from penstock.links.redirect.service import RedirectService
from penstock.links.statistics import routes as statistics_routes
from penstock.links.statistics.service import StatisticsService


@dataclass(frozen=True)
class LinksRoom(Room):
    associations: AssociationService
    links: LinkService
    url_rules: WebUrlRules
    link_uploads: LinkUploader
    click_buffer: ClickBuffer
    click_quota: ClickQuota
    link_statistics: StatisticsService
    redirects: RedirectService
    attribution: AttributionService

    routes = (
        *association_routes.ROUTES,
        *link_routes.ROUTES,
        *statistics_routes.ROUTES,
        *attribution_routes.ROUTES,
        *redirect_routes.ROUTES,
    )
    direct_routes = redirect_routes.DIRECT_ROUTES

    def workers(self) -> Sequence[Worker]:
        return [self.click_buffer.worker, self.click_quota.worker, self.attribution.worker]

    def lifespans(self) -> Sequence[AbstractAsyncContextManager[None]]:
        return [
            self.click_buffer.running(),
            self.click_quota.worker.running(),
            self.attribution.worker.running(),
        ]


def build(core: Core, accounts: AccountsRoom, events: EventsRoom) -> LinksRoom:
    websites = accounts.website_service
    settings, clock, database, *_ = core
    links = LinkService(core, websites)
    click_buffer = ClickBuffer(
        database,
        settings.data / "clicks",
        clock,
        on_stored=events.shipper.wake,
        process=ClaimableClickWriter(settings).write,
    )
    click_quota = ClickQuota(database, settings.share(settings.clicks_per_minute), clock)
    return LinksRoom(
        associations=AssociationService(websites, settings),
        links=links,
        url_rules=links.url_rules,
        link_uploads=LinkUploader(core, websites, links),
        click_buffer=click_buffer,
        click_quota=click_quota,
        link_statistics=StatisticsService(
            core,
            find_link=links.find,
            wait_until_shipped=partial(_wait_for_clicks, click_buffer, events.shipper),
        ),
        redirects=RedirectService(core, links, quota=click_quota, add_click=click_buffer.add),
        attribution=AttributionService(core, websites, links, events.intake, click_buffer),
    )


def _wait_for_clicks(click_buffer: ClickBuffer, shipper: Shipper, timeout_s: float) -> bool:
    """Wait until clicks and events acknowledged before this call are in the event store.

    Returns False on timeout.
    """
    return click_buffer.wait_until_stored(timeout_s) and shipper.wait_until_shipped(timeout_s)
