"""The funnels that benchmarks measure, and queries on them without the service."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.funnels.reports import evaluate

from bench.data import BREAKDOWNS, ENDED_MS, WEBSITE_ID
from penstock.base.ids import ScopeId, WebsiteId, WorkspaceId
from penstock.funnels.definitions.model import CountingUnit, Definition, Match, MatchType, Row
from penstock.funnels.outcomes.model import Mark, Subject
from penstock.funnels.outcomes.rows import OutcomeRows
from penstock.funnels.queries.engine import ENGINE_SETTINGS
from penstock.funnels.queries.profiles import ProfileReader
from penstock.funnels.queries.versions import VersionReader, VersionScope
from penstock.funnels.statements.counted_units import CountedUnits
from penstock.funnels.statements.query import DataProfile, QueryParams, Statement, StoredBuild
from penstock.funnels.statements.storing import merge_parts
from penstock.warehouse.client import Warehouse

WINDOW_S = 604_800


def params_of(website_id: str) -> QueryParams:
    """Return parameters that select all events of a website."""
    return QueryParams((WebsiteId(website_id),), (ScopeId(website_id),), None, None, ENDED_MS)


PARAMS = params_of(WEBSITE_ID)


def funnel(
    steps: int = 6,
    breakdowns: tuple[str, ...] = BREAKDOWNS,
    unit: CountingUnit = CountingUnit.ATTEMPT,
) -> Definition:
    """Create a funnel. Attempts have sequence numbers."""
    rows = tuple(Row((Match(MatchType.EVENT, f"step_{k}"),)) for k in range(1, steps + 1))
    if unit is CountingUnit.VISITOR:
        return Definition(rows, unit, WINDOW_S, breakdown_properties=breakdowns)
    return Definition(rows, unit, WINDOW_S, ("attemptId",), "n", breakdowns)


def open_events(data: Path) -> Warehouse:
    """Open the event store of a dataset, without merges during the measurement."""
    warehouse = Warehouse(data=data, url=None)
    warehouse.command("SYSTEM STOP MERGES events")
    return warehouse


class DirectFunnel:
    """A funnel counted from events."""

    def __init__(
        self, warehouse: Warehouse, definition: Definition, params: QueryParams = PARAMS
    ) -> None:
        self.warehouse, self.definition, self.params = warehouse, definition, params
        self._versions, self._profiles = VersionReader(warehouse), ProfileReader(warehouse)

    def profile(self) -> DataProfile:
        scope = VersionScope(self.params.website_ids, self.params.scope_ids)
        version = self._versions.read(scope)
        return self._profiles.read(self.params, self.definition.window_s, version)

    def report(self) -> object:
        return evaluate(self.warehouse, self.definition, self.params, profile=self.profile())

    def query(self, statement_of: Callable[[CountedUnits], Statement]) -> object:
        """Run a statement about individual units."""
        statement = statement_of(CountedUnits(self.definition, self.params, self.profile()))
        settings = {**ENGINE_SETTINGS, **statement.settings}
        return self.warehouse.query(statement.sql, statement.parameters, settings)


class StoredFunnel(DirectFunnel):
    """A funnel counted from its stored outcomes. If there are none, call `build` first."""

    def __init__(self, warehouse: Warehouse, definition: Definition) -> None:
        super().__init__(warehouse, definition)
        self.subject = Subject(definition, self.params.website_ids)
        self.rows = OutcomeRows(warehouse)
        self.shipment = 0
        marks = {mark.outcome: mark for mark in self.rows.marks()}
        self.mark = marks.get(self.subject.outcome) or self._new_mark()

    def _new_mark(self) -> Mark:
        return Mark(
            outcome=self.subject.outcome,
            build="bld_bench",
            workspace_id=WorkspaceId("wsp_bench"),
            funnel_id="fun_bench",
            shipment=0,
            events=0,
            read_until_ms=self.params.evaluated_at_ms,
            next_event_ms=0,
            queried_at_ms=0,
        )

    def build(self) -> None:
        self.rows.drop([self.mark.build])
        self.mark = self.rows.fill(self.subject, self._new_mark(), self.shipment)
        self.rows.save(self.mark)

    def merge(self) -> None:
        """Merge the parts of the stored rows, as the last step of a build does."""
        statement = merge_parts(self.mark.build)
        self.warehouse.query(statement.sql, statement.parameters)

    def profile(self) -> DataProfile:
        positions = tuple(range(1, len(self.definition.breakdown_properties) + 1))
        return replace(super().profile(), build=StoredBuild(self.mark.build, positions))

    def share_of_events(self) -> float:
        """Return the size of stored outcomes on disk, as a fraction of the size of the events."""
        rows = self.warehouse.query(
            "SELECT if(table = 'events', 'events', 'outcomes') AS kind, sum(bytes_on_disk) "
            "FROM system.parts WHERE active AND (table = 'events' "
            "OR startsWith(table, 'funnel_outcome')) GROUP BY kind"
        )[1]
        sizes = {str(kind): int(size) for kind, size in rows}
        return sizes["outcomes"] / sizes["events"]

    def fold(self, max_units: int) -> int:
        """Fold the units whose events have changed since the last fold. Returns the number of
        units.
        """
        backlog = self.rows.backlog(self.subject.website_ids, self.mark, self.shipment)
        until_ms = self.mark.read_until_ms
        changes = self.rows.changed_units(self.subject, self.mark, backlog, until_ms, max_units)
        assert changes is not None
        self.mark = self.rows.refresh(self.subject, self.mark, backlog, changes, until_ms)
        self.rows.save(self.mark)
        return len(changes.units)
