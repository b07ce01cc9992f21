"""Wiring of payment providers."""

from dataclasses import dataclass

from penstock.accounts.plugin import AccountsRoom
from penstock.core import Core, Room
from penstock.events.plugin import EventsRoom
from penstock.metadb.secret_box import SecretBox
from penstock.providers import routes
from penstock.providers.service import ProviderService


@dataclass(frozen=True)
class ProvidersRoom(Room):
    providers: ProviderService

    routes = routes.ROUTES


def build(core: Core, accounts: AccountsRoom, events: EventsRoom, box: SecretBox) -> ProvidersRoom:
    return ProvidersRoom(
        providers=ProviderService(
            core.database, accounts.website_service, events.intake, box, core.clock
        )
    )
