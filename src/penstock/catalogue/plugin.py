"""The catalogue room: names, properties and values that the funnel builder suggests to users."""

from dataclasses import dataclass

from penstock.accounts.plugin import AccountsRoom
from penstock.catalogue import routes
from penstock.catalogue.service import CatalogueService
from penstock.core import Core, Room
from penstock.warehouse.client import WaitUntilShipped


@dataclass(frozen=True)
class CatalogueRoom(Room):
    catalogue: CatalogueService

    routes = routes.ROUTES


def build(
    core: Core, accounts: AccountsRoom, *, wait_until_shipped: WaitUntilShipped
) -> CatalogueRoom:
    return CatalogueRoom(
        catalogue=CatalogueService(
            core.warehouse,
            accounts.website_service,
            core.settings,
            wait_until_shipped=wait_until_shipped,
        )
    )
