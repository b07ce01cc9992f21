"""The room of events: intake, outbox, shipper, imports and deletions."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from penstock.accounts.plugin import AccountsRoom
from penstock.base.worker import Worker
from penstock.core import Core, Room
from penstock.events import routes as event_routes
from penstock.events.deletions import routes as deletion_routes
from penstock.events.deletions.service import DeletionService, ForgetVisitors
from penstock.events.imports import routes as import_routes
from penstock.events.imports.service import ImportService
from penstock.events.intake import Intake
from penstock.events.retention.service import RetentionService
from penstock.events.service import EventService
from penstock.events.shipper import Shipper


@dataclass(frozen=True)
class EventsRoom(Room):
    shipper: Shipper
    intake: Intake
    events: EventService
    imports: ImportService
    deletions: DeletionService
    retention: RetentionService

    routes = (*event_routes.ROUTES, *import_routes.ROUTES, *deletion_routes.ROUTES)

    def workers(self) -> Sequence[Worker]:
        return [
            *self.intake.workers,
            self.shipper.worker,
            self.imports.worker,
            self.deletions.worker,
            self.retention.worker,
        ]

    def lifespans(self) -> Sequence[AbstractAsyncContextManager[None]]:
        """The shipper stops last: it carries what the others stored."""
        return [
            self.shipper.running(),
            self.deletions.running(),
            self.retention.running(),
            self.intake.running(),
            self.imports.running(),
        ]


def build(core: Core, accounts: AccountsRoom, *, forget_elsewhere: ForgetVisitors) -> EventsRoom:
    """forget_elsewhere: deletes what rooms above this one know of visitors."""
    settings, clock, database, warehouse = core
    shipper = Shipper(database, warehouse, clock)
    intake = Intake(database, clock, on_stored=shipper.wake, dedupe_days=settings.dedupe_days)
    deletions = DeletionService(
        database,
        warehouse,
        accounts.accounts,
        shipper,
        settings,
        clock,
        forget_elsewhere=forget_elsewhere,
    )
    return EventsRoom(
        shipper=shipper,
        intake=intake,
        events=EventService(accounts.accounts, intake, settings, clock),
        imports=ImportService(database, accounts.accounts, intake, settings, clock),
        deletions=deletions,
        retention=RetentionService(accounts.accounts, deletions, clock),
    )
