"""Stored outcomes of the benchmark's funnel: their build, their size, and answers from them.

A query after changes folds the changed attempts and then answers; both count. The changes are
further events of recent attempts, as they come in: one for each attempt, and each time others.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.funnels.reports import evaluate

from penstock.base.ids import WorkspaceId
from penstock.funnels.definitions.model import Definition
from penstock.funnels.insights.service import BIN_EDGES_MS
from penstock.funnels.outcomes.model import Mark, Subject
from penstock.funnels.outcomes.tables import OutcomeTables
from penstock.funnels.queries.engine import ENGINE_SETTINGS
from penstock.funnels.queries.profiles import ProfileReader
from penstock.funnels.queries.versions import VersionReader
from penstock.funnels.statements.counted_units import CountedUnits
from penstock.funnels.statements.query import DataProfile, QueryParams, Statement, StoredBuild
from penstock.funnels.statements.units import Outcome, UnitConditions, timing, trend, units_page
from penstock.warehouse.client import Warehouse

CHANGES = (100, 1_000, 10_000)
_DAY_MS = 86_400_000
_NEW_EVENTS = """
INSERT INTO events (* EXCEPT (visitor_key))
SELECT * EXCEPT (visitor_key) REPLACE (
    concat(event_id, '+') AS event_id, occurred_at + INTERVAL 1 SECOND AS occurred_at)
FROM events WHERE name = 'step_3' AND NOT endsWith(events.event_id, '+')
ORDER BY occurred_at DESC LIMIT {most:UInt64} OFFSET {changed:UInt64}"""
_CHANGED = "SELECT countIf(endsWith(event_id, '+')) FROM events"


class StoredFunnel:
    """The outcomes of one funnel over the benchmark's events."""

    def __init__(self, warehouse: Warehouse, definition: Definition, params: QueryParams) -> None:
        self.warehouse, self.definition, self.params = warehouse, definition, params
        self.subject = Subject(definition, params.website_ids)
        self.tables = OutcomeTables(warehouse)
        self._versions, self._profiles = VersionReader(warehouse), ProfileReader(warehouse)
        self.mark = Mark(
            self.subject.outcome,
            "bld_bench",
            WorkspaceId("wsp_bench"),
            "fun_bench",
            0,
            0,
            params.evaluated_at_ms,
            0,
            0,
        )

    def build(self) -> None:
        self.tables.drop([self.mark.build])
        self.mark = self.tables.fill(self.subject, self.mark)

    def share_of_events(self) -> float:
        """Their size on disk as a share of the events'."""
        rows = self.warehouse.query(
            "SELECT if(table = 'events', 'events', 'outcomes') AS kind, sum(bytes_on_disk) "
            "FROM system.parts WHERE active AND (table = 'events' "
            "OR startsWith(table, 'funnel_outcome')) GROUP BY kind"
        )[1]
        sizes = {str(kind): int(size) for kind, size in rows}
        return float(sizes["outcomes"] / sizes["events"])

    def report(self) -> object:
        return evaluate(self.warehouse, self.definition, self.params, profile=self._profile())

    def change(self, events: int) -> None:
        [[changed]] = self.warehouse.query(_CHANGED)[1]
        self.warehouse.command(_NEW_EVENTS, {"changed": changed, "most": events})

    def report_after_changes(self) -> object:
        backlog = self.tables.backlog(self.subject.website_ids, self.mark)
        until_ms = self.params.evaluated_at_ms
        changes = self.tables.changes(self.subject, self.mark, backlog, until_ms, max(CHANGES))
        assert changes is not None
        self.mark = self.tables.refresh(self.subject, self.mark, backlog, changes, until_ms)
        self.tables.save(self.mark)
        return self.report()

    def unit_queries(self) -> dict[str, Callable[[], object]]:
        first_ms = self.params.evaluated_at_ms - 62 * _DAY_MS
        days = [first_ms + _DAY_MS * day for day in range(63)]
        pairs = [(1, 6), *((step, step + 1) for step in range(1, 6))]
        stopped = UnitConditions(3, outcome=Outcome.DROPPED_OFF)
        return {
            "stored: trend by day": lambda: self._ask(lambda units: trend(units, days)),
            "stored: times between all steps": lambda: self._ask(
                lambda units: timing(units, pairs, BIN_EDGES_MS)
            ),
            "stored: a page of the units that stopped at step 3": lambda: self._ask(
                lambda units: units_page(units, stopped, None, 20)
            ),
        }

    def _ask(self, statement_of: Callable[[CountedUnits], Statement]) -> object:
        return self._run(statement_of(CountedUnits(self.definition, self.params, self._profile())))

    def _profile(self) -> DataProfile:
        places = tuple(range(1, len(self.definition.breakdown_properties) + 1))
        stored = StoredBuild(self.mark.build, places)
        version = self._versions.read(self.params.website_ids, self.params.scope_ids)
        profile = self._profiles.read(self.params, self.definition.window_s, version)
        return replace(profile, build=stored)

    def _run(self, statement: Statement) -> Any:
        return self.warehouse.query(statement.sql, statement.parameters, ENGINE_SETTINGS)[1]


def measure(
    stored: StoredFunnel, bare: Callable[[], object], direct: Callable[[], object], rounds: int
) -> dict[str, Any]:
    """Best seconds of everything, in turn with the bare `windowFunnel` and the direct report."""
    best: dict[str, float] = {}

    def timed(name: str, job: Callable[[], object]) -> None:
        start = time.perf_counter()
        job()
        best[name] = min(best.get(name, float("inf")), time.perf_counter() - start)

    timed("build", stored.build)
    share = stored.share_of_events()
    for _ in range(rounds):
        timed("bare windowFunnel, by the attempt's text", bare)
        timed("direct report", direct)
        timed("stored report", stored.report)
        for name, job in stored.unit_queries().items():
            timed(name, job)
        for events in CHANGES:
            stored.change(events)
            timed(f"stored report, {events:,} new events", stored.report_after_changes)
    return {"seconds": best, "share_of_events": share}
