"""Computes and exports the attribution report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import IO, Any

from penstock.accounts.websites.service import WebsiteService
from penstock.base.clock import iso
from penstock.base.errors import Fault
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.base.paging import Page
from penstock.base.table_files import UNKNOWN, Column, TableRow, write_rows
from penstock.base.temporary_files import temporary_file
from penstock.funnels.campaigns.schema import (
    AttributionExportQuery,
    AttributionQuery,
    AttributionRecord,
    AttributionSelection,
    AttributionTrendQuery,
    AttributionTrendRecord,
    CampaignClicksRecord,
    CampaignFiguresRecord,
    GroupBy,
    TrafficBucketRecord,
    TrafficRecord,
    TrafficSelection,
)
from penstock.funnels.definitions.ad_hoc import AdHocChanges
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.engine import Engine, EngineRows
from penstock.funnels.queries.parameters import Selection
from penstock.funnels.queries.provenance import Provenance
from penstock.funnels.queries.resolve import SavedFunnel
from penstock.funnels.queries.schema import ServedFrom
from penstock.funnels.queries.scope import authorise_websites
from penstock.funnels.results.tally import RATES, Tally, figures_of, in_file
from penstock.funnels.statements.campaigns import (
    FIGURES,
    Traffic,
    campaigns,
    clicked_links,
    traffic_trend,
)
from penstock.funnels.statements.query import Plan, Statement
from penstock.http.bodies import bad_parameter

MAX_CLICKED_LINKS = 5_000
MAX_TREND_VALUES = 5

ReadSlugs = Callable[[WorkspaceId, Sequence[str]], Mapping[str, str]]
"""Returns the slugs of a workspace's links by ID. Provided by the links room."""

WaitForClicks = Callable[[], bool]
"""A function that waits until clicks and events acknowledged before the call can be queried."""

_TRAFFIC_FIGURES = tuple(TrafficRecord.model_fields)
_ALL_FIGURES = tuple(CampaignFiguresRecord.model_fields)

_NOTHING: Mapping[str, Any] = {"groups": 0, **dict.fromkeys(FIGURES, 0)}
"""The total row for a statement that returns no rows."""


@dataclass(frozen=True, slots=True)
class _Report:
    """One report. context: the funnel's query, broken down by touch; None if there is no funnel."""

    traffic: Traffic
    context: QueryContext | None
    query: AttributionSelection

    def statement(self, page: Page | None) -> Statement:
        plan = None
        if self.context is not None:
            plan = Plan(self.context.definition, self.context.params, self.context.profile)
        return campaigns(self.traffic, plan, self.query.sort, page)


class CampaignService:
    """The attribution report. Its methods block, so call them from a worker thread.

    They raise the same errors as `FunnelQueryRunner.prepare`. Reports are not cached, because the
    data version does not include clicks.
    """

    def __init__(
        self,
        runner: FunnelQueryRunner,
        engine: Engine,
        websites: WebsiteService,
        *,
        read_slugs: ReadSlugs,
        wait_for_clicks: WaitForClicks,
    ) -> None:
        self._runner, self._engine, self._websites = runner, engine, websites
        self._read_slugs, self._wait_for_clicks = read_slugs, wait_for_clicks

    def report(self, workspace_id: WorkspaceId, query: AttributionQuery) -> AttributionRecord:
        """Compute a page. Raises Malformed if more than `MAX_CLICKED_LINKS` links were clicked."""
        report = self._prepare(workspace_id, query)
        result = self._engine.run(report.statement(query.pagination))
        rows = [dict(zip(result.names, row, strict=True)) for row in result.rows]
        total = next((row for row in rows if row["is_total"]), _NOTHING)
        context, has_funnel = report.context, report.context is not None
        return AttributionRecord.from_object(
            query,
            definition_revision=context.revision if context else None,
            period={"start_at": query.start_at, "end_at": query.end_at},
            evaluated_at=context.params.evaluated_at_ms if context else None,
            computed_at=result.computed_at_ms,
            internal_traffic=context.internal_traffic if context else None,
            totals=_figures(total, has_funnel=has_funnel),
            data=[
                {
                    "value": row["value"] or None,
                    "label": row["value"] or UNKNOWN,
                    **_figures(row, has_funnel=has_funnel),
                }
                for row in rows
                if not row["is_total"]
            ],
            total=total["groups"],
            coverage=self._runner.coverage(
                context, _provenance(context, result), Tally.of_totals(total).open
            )
            if context
            else None,
        )

    def trend(
        self, workspace_id: WorkspaceId, query: AttributionTrendQuery
    ) -> AttributionTrendRecord:
        """Count traffic over time. Raises Malformed for too many links or buckets."""
        self._wait_for_clicks()
        query = query.fitting(query.start_at, query.end_at - 1)
        edges = query.edges(query.start_at, query.end_at - 1, "The period")
        scope = authorise_websites(self._websites, workspace_id, query.website_id)
        traffic = self._traffic(workspace_id, scope.website_ids, query)
        result = self._engine.run(traffic_trend(traffic, edges[:-1], MAX_TREND_VALUES))
        rows = [dict(zip(result.names, row, strict=True)) for row in result.rows]
        totals = {row["bucket"]: row for row in rows if row["is_total"]}
        clicks: dict[str, dict[int, int]] = {}
        for row in rows:
            if not row["is_total"]:
                clicks.setdefault(row["value"], {})[row["bucket"]] = row["clicks"]
        return AttributionTrendRecord.from_object(
            query,
            period={"start_at": query.start_at, "end_at": query.end_at},
            computed_at=result.computed_at_ms,
            data=[
                TrafficBucketRecord(
                    from_=iso(start_ms),
                    to=iso(end_ms),
                    **{name: totals.get(start_ms, _NOTHING)[name] for name in _TRAFFIC_FIGURES},
                )
                for start_ms, end_ms in pairwise(edges)
            ],
            values=[
                CampaignClicksRecord(
                    value=value or None,
                    label=value or UNKNOWN,
                    clicks=[own.get(start_ms, 0) for start_ms in edges[:-1]],
                )
                for value, own in clicks.items()
            ],
        )

    def export(self, workspace_id: WorkspaceId, query: AttributionExportQuery) -> IO[bytes]:
        """Write the whole table to a temporary file, and return the file, rewound.

        Raises the same errors as `report`.
        """
        report = self._prepare(workspace_id, query)
        has_funnel = report.context is not None
        names = _ALL_FIGURES if has_funnel else _TRAFFIC_FIGURES
        with temporary_file() as file, self._engine.stream(report.statement(None)) as blocks:
            tables = (_table_rows(block, names, has_funnel=has_funnel) for block in blocks)
            columns = [Column(name, float if name in RATES else int) for name in names]
            write_rows([query.group_by], columns, tables, query.format, file, label="value")
        return file

    def _prepare(self, workspace_id: WorkspaceId, query: AttributionSelection) -> _Report:
        self._wait_for_clicks()
        context = None
        if query.funnel_id is not None:
            selection = Selection(
                query.website_id,
                query.start_at,
                query.end_at,
                ad_hoc=AdHocChanges(internal=query.internal),
            )
            source = SavedFunnel(query.funnel_id, None)
            prepared = self._runner.prepare(workspace_id, source, selection)
            context = _break_down_by_touch(prepared, query)
            websites = context.params.website_ids
        else:
            scope = authorise_websites(self._websites, workspace_id, query.website_id)
            websites = scope.website_ids
        return _Report(self._traffic(workspace_id, websites, query), context, query)

    def _traffic(
        self, workspace_id: WorkspaceId, websites: tuple[WebsiteId, ...], query: TrafficSelection
    ) -> Traffic:
        traffic = Traffic(websites, query.group_by.column, query.start_at, query.end_at)
        if query.group_by is GroupBy.LINK:
            traffic = replace(traffic, slugs=self._slugs(workspace_id, traffic))
        return traffic

    def _slugs(self, workspace_id: WorkspaceId, traffic: Traffic) -> Mapping[str, str]:
        """Return the clicked links' slugs by ID. Clicks store link IDs, but events store slugs."""
        rows = self._engine.run(clicked_links(traffic, MAX_CLICKED_LINKS + 1)).rows
        if len(rows) > MAX_CLICKED_LINKS:
            message = (
                f"More than {MAX_CLICKED_LINKS:,} links were clicked. Use a shorter period or "
                "websiteId, or group by source, medium or campaign."
            )
            raise bad_parameter(Fault("groupBy", "too_many_links", message))
        return self._read_slugs(workspace_id, [link_id for [link_id] in rows])


def _break_down_by_touch(context: QueryContext, query: AttributionSelection) -> QueryContext:
    """Return the same query, broken down only by a touch. Touches have no stored outcomes."""
    field = f"${query.touch}_{query.group_by.column}"
    definition = replace(context.definition, breakdown_properties=(field,))
    return replace(context, definition=definition, saved_definition=definition)


def _provenance(context: QueryContext, result: EngineRows) -> Provenance:
    return Provenance(result.computed_at_ms, ServedFrom.QUERY, is_fresh=context.is_fresh)


def _figures(row: Mapping[str, Any], *, has_funnel: bool) -> dict[str, Any]:
    tally = figures_of(Tally.of_totals(row), CampaignFiguresRecord) if has_funnel else {}
    traffic = {name: row[name] for name in _TRAFFIC_FIGURES}
    return {**dict.fromkeys(_ALL_FIGURES), **traffic, **tally}


def _table_rows(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], *, has_funnel: bool
) -> list[TableRow]:
    table: list[TableRow] = []
    for row in rows:
        figures = _figures(row, has_funnel=has_funnel)
        value = None if row["is_total"] else [row["value"] or None]
        table.append((value, [in_file(name, figures[name]) for name in names]))
    return table
