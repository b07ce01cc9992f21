"""Wiring of receipts."""

from dataclasses import dataclass

from penstock.accounts.plugin import AccountsRoom
from penstock.core import Core, Room
from penstock.funnels.plugin import FunnelsRoom
from penstock.metadb.secret_box import SecretBox
from penstock.receipts import routes
from penstock.receipts.keys import ReceiptKeys
from penstock.receipts.service import ReceiptService


@dataclass(frozen=True)
class ReceiptsRoom(Room):
    receipts: ReceiptService
    receipt_keys: ReceiptKeys

    routes = routes.ROUTES


def build(core: Core, accounts: AccountsRoom, funnels: FunnelsRoom, box: SecretBox) -> ReceiptsRoom:
    keys = ReceiptKeys(core.database, box, core.clock)
    return ReceiptsRoom(
        receipts=ReceiptService(
            core.database,
            funnels.funnel_queries,
            funnels.funnels,
            funnels.internal_traffic,
            funnels.cohorts,
            accounts.website_service,
            keys,
            core.clock,
            folder=core.settings.data,
            base_url=core.settings.base_url,
            wait_s=core.settings.limits.receipt_wait_s,
        ),
        receipt_keys=keys,
    )
