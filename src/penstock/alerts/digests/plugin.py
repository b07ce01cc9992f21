"""The sub-room of weekly digests."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.accounts.plugin import AccountsRoom
from penstock.alerts.digests import routes as digest_routes
from penstock.alerts.digests.service import DigestService
from penstock.alerts.digests.worker import DigestSender
from penstock.base.worker import Worker
from penstock.core import Core, Room
from penstock.funnels.plugin import FunnelsRoom
from penstock.metadb.secret_box import SecretBox


@dataclass(frozen=True)
class DigestsRoom(Room):
    digests: DigestService
    digest_sender: DigestSender

    routes = digest_routes.ROUTES

    def workers(self) -> Sequence[Worker]:
        return [self.digest_sender.worker] if self.digests.is_set_up else []


def build(core: Core, accounts: AccountsRoom, funnels: FunnelsRoom, box: SecretBox) -> DigestsRoom:
    digests = DigestService(core.database, funnels.funnels, accounts.mailer, box, core.clock)
    sender = DigestSender(
        core,
        digests,
        funnels.funnels,
        funnels.funnel_queries,
        accounts.limits,
        accounts.mailer,
    )
    return DigestsRoom(digests=digests, digest_sender=sender)
