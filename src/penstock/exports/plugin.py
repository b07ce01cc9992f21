"""The exports room: files that contain the data of a workspace."""

from dataclasses import dataclass

from penstock.accounts.plugin import AccountsRoom
from penstock.core import Core, Room
from penstock.exports import routes
from penstock.exports.service import ExportService
from penstock.warehouse.client import WaitUntilShipped


@dataclass(frozen=True)
class ExportsRoom(Room):
    workspace_exports: ExportService

    routes = routes.ROUTES


def build(
    core: Core, accounts: AccountsRoom, *, wait_until_shipped: WaitUntilShipped
) -> ExportsRoom:
    return ExportsRoom(
        workspace_exports=ExportService(
            core, accounts.website_service, wait_until_shipped=wait_until_shipped
        )
    )
