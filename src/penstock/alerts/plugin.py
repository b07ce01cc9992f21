"""The alerts room: rules that are checked every hour, and the messages that they send."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from penstock.accounts.plugin import AccountsRoom
from penstock.alerts import routes
from penstock.alerts.checks import Checker, Counts
from penstock.alerts.deliveries import Deliverer
from penstock.alerts.service import AlertService
from penstock.alerts.wording import MessageWriter
from penstock.alerts.worker import AlertWorker
from penstock.base.ids import WorkspaceId
from penstock.base.worker import Worker
from penstock.catalogue.plugin import CatalogueRoom
from penstock.core import Core, Room
from penstock.events.plugin import EventsRoom
from penstock.funnels.plugin import FunnelsRoom
from penstock.metadb.secret_box import SecretBox
from penstock.outbound.sender import Outbound


@dataclass(frozen=True)
class AlertsRoom(Room):
    alerts: AlertService
    alert_worker: AlertWorker
    alert_deliverer: Deliverer

    routes = routes.ROUTES

    def workers(self) -> Sequence[Worker]:
        return [self.alert_worker.worker, self.alert_deliverer.worker]

    def lifespans(self) -> Sequence[AbstractAsyncContextManager[None]]:
        return [self.alert_deliverer.senders.running(), self.alert_worker.worker.running()]


def build(
    core: Core,
    accounts: AccountsRoom,
    events: EventsRoom,
    funnels: FunnelsRoom,
    catalogue: CatalogueRoom,
    outbound: Outbound,
    box: SecretBox,
) -> AlertsRoom:
    def read_counts(workspace_id: WorkspaceId, website_id: str | None) -> Counts:
        if website_id is not None:
            accounts.website_service.owned_website(workspace_id, website_id)
        counts = [
            each
            for each in events.quarantine.counts(workspace_id).data
            if website_id in (None, each.website_id)
        ]
        return Counts(
            sum(each.received for each in counts),
            sum(each.refused + each.quarantined for each in counts),
        )

    checker = Checker(
        funnels.funnel_queries,
        catalogue.catalogue,
        read_counts=read_counts,
        read_lag_s=lambda: events.shipper.outbox_state().oldest_age_s,
        wait_until_shipped=events.shipper.wait_until_shipped,
        fresh_wait_s=core.settings.limits.fresh_wait_s,
    )
    deliverer = Deliverer(core, accounts.limits, accounts.mailer, outbound, box)
    writer = MessageWriter(
        funnels.funnel_queries, funnels.funnels, accounts.limits, core.settings.base_url
    )
    worker = AlertWorker(core, checker, writer, deliverer, accounts.limits)
    return AlertsRoom(
        alerts=AlertService(core, checker, worker, accounts.mailer, outbound, box),
        alert_worker=worker,
        alert_deliverer=deliverer,
    )
