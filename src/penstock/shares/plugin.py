"""Wiring of shared reports."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.accounts.plugin import AccountsRoom
from penstock.base.worker import Worker
from penstock.core import Core, Room
from penstock.funnels.plugin import FunnelsRoom
from penstock.shares import routes
from penstock.shares.answers import SharedReports
from penstock.shares.service import ShareService


@dataclass(frozen=True)
class SharesRoom(Room):
    shares: ShareService
    shared_reports: SharedReports

    routes = routes.ROUTES

    def workers(self) -> Sequence[Worker]:
        return [self.shares.worker]


def build(core: Core, accounts: AccountsRoom, funnels: FunnelsRoom) -> SharesRoom:
    return SharesRoom(
        shares=ShareService(
            core.database,
            funnels.funnels,
            accounts.website_service,
            core.clock,
            core.settings.base_url,
        ),
        shared_reports=SharedReports(
            funnels.funnel_queries, funnels.funnels, accounts.limits, core.clock
        ),
    )
