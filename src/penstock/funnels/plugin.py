"""The funnels room: goals, funnels and their reports."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from penstock.accounts.plugin import AccountsRoom
from penstock.base.worker import Worker
from penstock.core import Core, Room
from penstock.funnels import routes as question_routes
from penstock.funnels.campaigns import routes as campaign_routes
from penstock.funnels.campaigns.service import CampaignService, ReadSlugs, WaitForClicks
from penstock.funnels.changes import OutcomeChanges
from penstock.funnels.definitions.regexes import PatternChecker
from penstock.funnels.forecasts.worker import ForecastWorker
from penstock.funnels.goals.service import GoalService
from penstock.funnels.internal_traffic import routes as internal_traffic_routes
from penstock.funnels.internal_traffic.service import InternalTrafficService
from penstock.funnels.outcomes import routes as outcome_routes
from penstock.funnels.outcomes.service import OutcomeService
from penstock.funnels.outcomes.worker import OutcomeWorker
from penstock.funnels.pipeline import (
    FindReceipt,
    FunnelQueryRunner,
    ReadLostEvents,
    ReadsEverything,
)
from penstock.funnels.queries.coverage import ReadGaps
from penstock.funnels.queries.engine import Engine
from penstock.funnels.queries.request import provide_run_question
from penstock.funnels.saved import routes as funnel_routes
from penstock.funnels.saved.service import FunnelService
from penstock.funnels.saved_cohorts import routes as cohort_routes
from penstock.funnels.saved_cohorts.service import SavedCohortService
from penstock.funnels.segments.service import SavedSegmentService
from penstock.metadb.person import ReadPeople
from penstock.named_records.routes import Records, record_routes
from penstock.warehouse.client import ReadShipments, WaitUntilShipped

RECORDS: Mapping[str, type[Records]] = {"goals": GoalService, "segments": SavedSegmentService}
"""Services of named records, by their names in the room."""


@dataclass(frozen=True)
class FunnelsRoom(Room):
    patterns: PatternChecker
    goals: GoalService
    segments: SavedSegmentService
    internal_traffic: InternalTrafficService
    funnels: FunnelService
    funnel_queries: FunnelQueryRunner
    cohorts: SavedCohortService
    campaigns: CampaignService
    outcomes: OutcomeService
    outcome_worker: OutcomeWorker
    outcome_changes: OutcomeChanges
    forecast_worker: ForecastWorker

    routes = (
        *record_routes(RECORDS),
        *internal_traffic_routes.ROUTES,
        *funnel_routes.ROUTES,
        *question_routes.ROUTES,
        *cohort_routes.ROUTES,
        *campaign_routes.ROUTES,
        *outcome_routes.ROUTES,
    )
    request_objects = {"run_question": provide_run_question}  # noqa: RUF012

    def workers(self) -> Sequence[Worker]:
        outcomes = [self.outcome_worker.worker] if self.outcome_worker.is_enabled else []
        return [*outcomes, self.forecast_worker.worker]

    def lifespans(self) -> Sequence[AbstractAsyncContextManager[None]]:
        return [self.outcome_worker.worker.running(), self.forecast_worker.worker.running()]


def build(
    core: Core,
    accounts: AccountsRoom,
    *,
    wait_until_shipped: WaitUntilShipped,
    read_shipments: ReadShipments,
    reads_everything: ReadsEverything,
    read_people: ReadPeople,
    read_gaps: ReadGaps,
    find_receipt: FindReceipt,
    read_lost_events: ReadLostEvents,
    read_slugs: ReadSlugs,
    wait_for_clicks: WaitForClicks,
) -> FunnelsRoom:
    """Build the room.

    wait_until_shipped, read_shipments, reads_everything, read_lost_events: functions of the events
    room.
    read_people: names the people behind visitors; a function of the identity room.
    read_gaps: finds the imports and deletions that limit the coverage of a report.
    find_receipt: finds the receipt of a question; a function of the receipts room.
    read_slugs, wait_for_clicks: functions of the links room.
    """
    settings, clock, database, warehouse, *_ = core
    patterns = PatternChecker(warehouse)
    segments = SavedSegmentService(database, clock)
    internal_traffic = InternalTrafficService(database, patterns, clock)
    funnels = FunnelService(database, patterns, clock, segments, internal_traffic)
    outcome_worker = OutcomeWorker(core, accounts.website_service, funnels, read_shipments)
    outcomes = OutcomeService(outcome_worker, settings, clock)
    rule_runner = FunnelQueryRunner(
        warehouse,
        accounts.website_service,
        funnels,
        settings,
        clock,
        database,
        wait_until_shipped=wait_until_shipped,
        reads_everything=reads_everything,
        outcomes=outcomes,
        read_people=read_people,
        read_gaps=read_gaps,
        find_receipt=find_receipt,
        read_lost_events=read_lost_events,
    )
    # The rule of a cohort cannot depend on another cohort, so its runner does not read cohorts.
    rules = SavedCohortService(database, rule_runner, warehouse, accounts.website_service, clock)
    runner = rule_runner.with_cohorts(rules.members)
    cohorts = SavedCohortService(database, runner, warehouse, accounts.website_service, clock)
    return FunnelsRoom(
        patterns=patterns,
        goals=GoalService(database, clock),
        segments=segments,
        internal_traffic=internal_traffic,
        funnels=funnels,
        funnel_queries=runner,
        cohorts=cohorts,
        campaigns=CampaignService(
            runner,
            Engine(warehouse, settings, clock),
            accounts.website_service,
            read_slugs=read_slugs,
            wait_for_clicks=wait_for_clicks,
        ),
        outcomes=outcomes,
        outcome_worker=outcome_worker,
        outcome_changes=OutcomeChanges(runner, outcomes),
        forecast_worker=ForecastWorker(core, runner, accounts.limits),
    )
