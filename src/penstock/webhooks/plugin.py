"""The webhooks room: outcomes of units, sent to addresses that members choose."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from penstock.accounts.plugin import AccountsRoom
from penstock.base.worker import Worker
from penstock.core import Core, Room
from penstock.funnels.plugin import FunnelsRoom
from penstock.metadb.secret_box import SecretBox
from penstock.outbound.plugin import OutboundRoom
from penstock.webhooks import routes
from penstock.webhooks.deliveries import Deliverer
from penstock.webhooks.maker import MessageMaker
from penstock.webhooks.service import WebhookService


@dataclass(frozen=True)
class WebhooksRoom(Room):
    webhooks: WebhookService
    webhook_maker: MessageMaker
    webhook_deliverer: Deliverer

    routes = routes.ROUTES

    def workers(self) -> Sequence[Worker]:
        return [self.webhook_maker.worker, self.webhook_deliverer.worker]

    def lifespans(self) -> Sequence[AbstractAsyncContextManager[None]]:
        return [self.webhook_deliverer.senders.running(), self.webhook_maker.worker.running()]


def build(
    core: Core,
    accounts: AccountsRoom,
    funnels: FunnelsRoom,
    outbound: OutboundRoom,
    box: SecretBox,
) -> WebhooksRoom:
    workspaces, changes = accounts.limits, funnels.outcome_changes
    deliverer = Deliverer(core, outbound.outbound, workspaces, box)
    return WebhooksRoom(
        webhooks=WebhookService(core, changes, workspaces, outbound.outbound, deliverer, box),
        webhook_maker=MessageMaker(core, changes, workspaces, deliverer),
        webhook_deliverer=deliverer,
    )
