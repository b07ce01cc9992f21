"""The events room: intake, outbox, shipper, imports and deletions."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from operator import attrgetter

from penstock.accounts.plugin import AccountsRoom
from penstock.base.gaps import Gap
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.base.metrics import PolledGauge, PolledGauges
from penstock.base.worker import Worker
from penstock.core import Core, Room
from penstock.disk.plugin import DiskRoom
from penstock.events import routes as event_routes
from penstock.events.deletions import routes as deletion_routes
from penstock.events.deletions.service import DeletionService, ReadExports
from penstock.events.deletions.undos import routes as undo_routes
from penstock.events.deletions.undos.service import ImportUndoService
from penstock.events.deletions.worker import ForgetVisitors
from penstock.events.imports import routes as import_routes
from penstock.events.imports.dry_runs import routes as dry_run_routes
from penstock.events.imports.dry_runs.service import DryRunService
from penstock.events.imports.mappings.service import ImportMappingService
from penstock.events.imports.service import ImportService
from penstock.events.intake import Intake
from penstock.events.losses.service import LossService
from penstock.events.quarantine.model import QuarantineLimits
from penstock.events.quarantine.replays import ReadCall, Replayer
from penstock.events.quarantine.service import QuarantineService
from penstock.events.releases import VisitorReleases
from penstock.events.repeats.event_keys import EventKeys
from penstock.events.retention.service import RetentionService
from penstock.events.service import EventService
from penstock.events.shipper import Shipper
from penstock.metadb.secret_box import SecretBox
from penstock.named_records.routes import Records, record_routes

RECORDS: Mapping[str, type[Records]] = {"import_mappings": ImportMappingService}
"""Services of named records, by their names in the room."""


@dataclass(frozen=True)
class EventsRoom(Room):
    shipper: Shipper
    intake: Intake
    events: EventService
    quarantine: QuarantineService
    replays: Replayer
    imports: ImportService
    dry_runs: DryRunService
    import_mappings: ImportMappingService
    deletions: DeletionService
    import_undos: ImportUndoService
    retention: RetentionService
    losses: LossService
    releases: VisitorReleases

    routes = (
        *event_routes.ROUTES,
        *import_routes.ROUTES,
        *dry_run_routes.ROUTES,
        *record_routes(RECORDS),
        *deletion_routes.ROUTES,
        *undo_routes.ROUTES,
    )
    direct_routes = event_routes.DIRECT_ROUTES

    def gaps(self, workspace_id: WorkspaceId, website_ids: Collection[WebsiteId]) -> list[Gap]:
        """Return the imports, deletions, retention and losses of websites, oldest first."""
        gaps = [
            *self.imports.gaps(workspace_id, website_ids),
            *self.deletions.gaps(workspace_id, website_ids),
            *(loss.gap(site) for loss in self.losses.losses() for site in website_ids),
        ]
        return sorted(gaps, key=attrgetter("at_ms"))

    def workers(self) -> Sequence[Worker]:
        return [
            *self.intake.workers,
            self.shipper.worker,
            self.imports.worker,
            self.dry_runs.worker,
            self.deletions.worker,
            self.retention.worker,
            self.losses.worker,
            self.releases.worker,
        ]

    def gauges(self) -> Sequence[PolledGauge | PolledGauges]:
        return [
            PolledGauge(
                "penstock_intake_waiting_items",
                "Events and identify calls that wait for their commit.",
                self.intake.waiting,
            ),
            PolledGauges(
                (
                    ("penstock_outbox_bundles", "Bundles of rows that wait for the event store."),
                    (
                        "penstock_outbox_oldest_age_seconds",
                        "Age of the oldest rows that wait for the event store; 0 when none wait.",
                    ),
                ),
                self._read_outbox,
            ),
            PolledGauge(
                "penstock_quarantine_entries",
                "Events in the quarantine of all websites, by reason.",
                self.quarantine.entries_by_reason,
                "reason",
            ),
            PolledGauge(
                "penstock_missing_events",
                "Stored events that the event store had lost at the last comparison.",
                lambda: self.losses.state().events or 0,
            ),
        ]

    def _read_outbox(self) -> tuple[float, float]:
        state = self.shipper.outbox_state()
        return state.bundles, state.oldest_age_s or 0

    def lifespans(self) -> Sequence[AbstractAsyncContextManager[None]]:
        """Compare rows before any are shipped. The shipper starts next, and so stops after all
        later services, because it ships the rows that they store. Deletions and retention need it.
        """
        return [
            self.losses.running(),
            self.shipper.running(),
            self.deletions.worker.running(),
            self.retention.worker.running(),
            self.releases.worker.running(),
            self.intake.running(),
            self.imports.running(),
        ]


def build(
    core: Core,
    accounts: AccountsRoom,
    disk: DiskRoom,
    box: SecretBox,
    *,
    forget_in_other_rooms: ForgetVisitors,
    read_call: ReadCall,
    read_exports: ReadExports,
) -> EventsRoom:
    """Create the services of this room.

    forget_in_other_rooms: deletes the data about visitors in rooms above this one.

    read_call: reads a tracking protocol call; provided by the segment room. read_exports: reads
    the exports that can still contain a deleted person.
    """
    settings, clock, database, warehouse, *_ = core
    websites = accounts.website_service
    limits = QuarantineLimits(settings.limits.quarantine_rows, settings.limits.quarantine_bytes)
    shipper = Shipper(database, warehouse, clock, limits, core.attempts)
    intake = Intake(
        database,
        clock,
        on_stored=shipper.wake,
        event_keys=EventKeys(database, box, settings.dedupe_days),
        daily_events=settings.daily_events,
        property_keys=settings.max_website_property_keys,
        quarantine=limits,
    )
    deletions = DeletionService(
        core,
        websites,
        shipper,
        forget_in_other_rooms=forget_in_other_rooms,
        read_exports=read_exports,
    )
    import_mappings = ImportMappingService(database, clock)
    imports = ImportService(core, websites, import_mappings, intake, disk.disk)
    return EventsRoom(
        shipper=shipper,
        intake=intake,
        events=EventService(
            core, accounts.key_service, websites, accounts.identity_secrets, intake
        ),
        quarantine=QuarantineService(core, websites, intake),
        replays=Replayer(core, websites, intake, on_stored=shipper.wake, read_call=read_call),
        imports=imports,
        dry_runs=imports.dry_runs,
        import_mappings=import_mappings,
        deletions=deletions,
        import_undos=ImportUndoService(core, websites, shipper, on_requested=deletions.worker.wake),
        retention=RetentionService(websites, deletions, clock),
        losses=LossService(database, warehouse, clock),
        releases=VisitorReleases(database, clock, on_stored=shipper.wake),
    )
