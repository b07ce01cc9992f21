"""The room of visitors with their timelines, and of live events."""

from dataclasses import dataclass

from penstock.accounts.plugin import AccountsRoom
from penstock.activity.live import routes as live_routes
from penstock.activity.live.service import LiveService
from penstock.activity.visitors import routes as visitor_routes
from penstock.activity.visitors.service import VisitorService
from penstock.core import Core, Room
from penstock.warehouse.client import WaitUntilShipped


@dataclass(frozen=True)
class ActivityRoom(Room):
    visitors: VisitorService
    live: LiveService

    routes = (*visitor_routes.ROUTES, *live_routes.ROUTES)


def build(
    core: Core, accounts: AccountsRoom, *, wait_until_shipped: WaitUntilShipped
) -> ActivityRoom:
    settings, clock, database, warehouse, _ = core
    return ActivityRoom(
        visitors=VisitorService(
            database,
            warehouse,
            accounts.website_service,
            settings,
            clock,
            wait_until_shipped=wait_until_shipped,
        ),
        live=LiveService(
            database,
            warehouse,
            accounts.website_service,
            clock,
            wait_until_shipped=wait_until_shipped,
        ),
    )
