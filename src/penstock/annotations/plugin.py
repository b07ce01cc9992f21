"""The annotations room: notes on the time axes of reports."""

from dataclasses import dataclass

from penstock.accounts.plugin import AccountsRoom
from penstock.annotations import routes
from penstock.annotations.service import AnnotationService
from penstock.core import Core, Room
from penstock.funnels.plugin import FunnelsRoom


@dataclass(frozen=True)
class AnnotationsRoom(Room):
    annotations: AnnotationService

    routes = routes.ROUTES


def build(core: Core, accounts: AccountsRoom, funnels: FunnelsRoom) -> AnnotationsRoom:
    return AnnotationsRoom(
        annotations=AnnotationService(
            core.database, accounts.website_service, funnels.funnels, core.clock
        )
    )
