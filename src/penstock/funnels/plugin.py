"""The funnels room: goals, funnels and their reports."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from penstock.accounts.plugin import AccountsRoom
from penstock.base.worker import Worker
from penstock.core import Core, Room
from penstock.funnels.campaigns import routes as campaign_routes
from penstock.funnels.campaigns.service import CampaignService, ReadSlugs, WaitForClicks
from penstock.funnels.comparisons import routes as comparison_routes
from penstock.funnels.comparisons.service import CompareService
from penstock.funnels.definitions.regexes import PatternChecker
from penstock.funnels.drivers import routes as driver_routes
from penstock.funnels.drivers.service import DriverService
from penstock.funnels.flows import routes as flow_routes
from penstock.funnels.flows.service import FlowService
from penstock.funnels.goals import routes as goal_routes
from penstock.funnels.goals.service import GoalService
from penstock.funnels.insights import routes as insight_routes
from penstock.funnels.insights.service import InsightService
from penstock.funnels.internal_traffic import routes as internal_traffic_routes
from penstock.funnels.internal_traffic.service import InternalTrafficService
from penstock.funnels.outcomes import routes as outcome_routes
from penstock.funnels.outcomes.service import OutcomeService
from penstock.funnels.outcomes.subjects import SubjectReader
from penstock.funnels.outcomes.worker import OutcomeWorker
from penstock.funnels.periods import routes as period_routes
from penstock.funnels.periods.service import PeriodsService
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.coverage import ReadGaps
from penstock.funnels.queries.engine import Engine
from penstock.funnels.queries.request import provide_run_question
from penstock.funnels.results import routes as result_routes
from penstock.funnels.results.export import ReportExporter
from penstock.funnels.results.service import ReadLostEvents, ResultsService
from penstock.funnels.saved import routes as funnel_routes
from penstock.funnels.saved.service import FunnelService
from penstock.funnels.saved_cohorts import routes as cohort_routes
from penstock.funnels.saved_cohorts.export import CohortExporter
from penstock.funnels.saved_cohorts.service import SavedCohortService
from penstock.funnels.segments import routes as segment_routes
from penstock.funnels.segments.service import SavedSegmentService
from penstock.funnels.units import routes as unit_routes
from penstock.funnels.units.export import UnitExporter
from penstock.funnels.units.service import UnitService
from penstock.funnels.units.table import UnitTableWriter
from penstock.funnels.units.trace_reader import TraceReader
from penstock.funnels.verdicts import routes as verdict_routes
from penstock.funnels.verdicts.service import VerdictService
from penstock.warehouse.client import WaitUntilShipped


@dataclass(frozen=True)
class FunnelsRoom(Room):
    goals: GoalService
    segments: SavedSegmentService
    internal_traffic: InternalTrafficService
    funnels: FunnelService
    results: ResultsService
    units: UnitService
    unit_exports: UnitExporter
    unit_tables: UnitTableWriter
    traces: TraceReader
    cohorts: SavedCohortService
    cohort_exports: CohortExporter
    insights: InsightService
    exports: ReportExporter
    comparisons: CompareService
    periods: PeriodsService
    verdicts: VerdictService
    drivers: DriverService
    flows: FlowService
    campaigns: CampaignService
    outcomes: OutcomeService
    outcome_worker: OutcomeWorker

    routes = (
        *goal_routes.ROUTES,
        *segment_routes.ROUTES,
        *internal_traffic_routes.ROUTES,
        *funnel_routes.ROUTES,
        *result_routes.ROUTES,
        *unit_routes.ROUTES,
        *cohort_routes.ROUTES,
        *insight_routes.ROUTES,
        *comparison_routes.ROUTES,
        *period_routes.ROUTES,
        *verdict_routes.ROUTES,
        *driver_routes.ROUTES,
        *flow_routes.ROUTES,
        *campaign_routes.ROUTES,
        *outcome_routes.ROUTES,
    )
    request_objects = {"run_question": provide_run_question}  # noqa: RUF012

    def workers(self) -> Sequence[Worker]:
        return [self.outcome_worker.worker] if self.outcome_worker.is_enabled else []

    def lifespans(self) -> Sequence[AbstractAsyncContextManager[None]]:
        return [self.outcome_worker.running()]


def build(
    core: Core,
    accounts: AccountsRoom,
    *,
    wait_until_shipped: WaitUntilShipped,
    read_gaps: ReadGaps,
    read_lost_events: ReadLostEvents,
    read_slugs: ReadSlugs,
    wait_for_clicks: WaitForClicks,
) -> FunnelsRoom:
    """Build the room.

    wait_until_shipped, read_lost_events: functions of the events room.
    read_gaps: finds the imports and deletions that limit the coverage of a report.
    read_slugs, wait_for_clicks: functions of the links room.
    """
    settings, clock, database, warehouse, *_ = core
    patterns = PatternChecker(warehouse)
    segments = SavedSegmentService(database, patterns, clock)
    internal_traffic = InternalTrafficService(database, patterns, clock)
    funnels = FunnelService(database, patterns, clock, segments, internal_traffic)
    subjects = SubjectReader(accounts.website_service, funnels)
    outcome_worker = OutcomeWorker(warehouse, database, subjects, settings, clock, core.attempts)
    outcomes = OutcomeService(outcome_worker, settings, clock)
    rule_runner = FunnelQueryRunner(
        warehouse,
        accounts.website_service,
        funnels,
        settings,
        clock,
        wait_until_shipped=wait_until_shipped,
        outcomes=outcomes,
    )
    # The rule of a cohort cannot depend on another cohort, so its runner does not read cohorts.
    rules = SavedCohortService(database, rule_runner, warehouse, accounts.website_service, clock)
    runner = rule_runner.with_cohorts(rules.members)
    cohorts = SavedCohortService(database, runner, warehouse, accounts.website_service, clock)
    units, insights = UnitService(runner), InsightService(runner)
    results = ResultsService(runner, funnels, read_gaps, read_lost_events)
    return FunnelsRoom(
        goals=GoalService(database, patterns, clock),
        segments=segments,
        internal_traffic=internal_traffic,
        funnels=funnels,
        results=results,
        units=units,
        unit_exports=UnitExporter(runner, funnels, units),
        unit_tables=UnitTableWriter(runner, units),
        traces=TraceReader(runner, units),
        cohorts=cohorts,
        cohort_exports=CohortExporter(cohorts),
        insights=insights,
        exports=ReportExporter(runner, funnels, results),
        comparisons=CompareService(runner, read_gaps),
        periods=PeriodsService(runner, results, insights),
        verdicts=VerdictService(runner, results),
        drivers=DriverService(runner),
        flows=FlowService(runner),
        campaigns=CampaignService(
            runner,
            Engine(warehouse, settings, clock),
            accounts.website_service,
            read_gaps=read_gaps,
            read_slugs=read_slugs,
            wait_for_clicks=wait_for_clicks,
        ),
        outcomes=outcomes,
        outcome_worker=outcome_worker,
    )
