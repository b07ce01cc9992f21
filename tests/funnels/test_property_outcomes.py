"""Stored outcomes against the direct evaluation, on random funnels and histories.

Events come in random shipments, with late ones, future ones, ties and merges; after each shipment
the changed units are folded again. Now and then some events are deleted, or the process is killed
between two statements. In the end all figures and all units are those of a direct evaluation.

Shares `PENSTOCK_EXAMPLES` with the reports' property test: a fifth of it runs here.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import WorkspaceId
from penstock.funnels.definitions.model import CountingUnit
from penstock.funnels.outcomes.model import Mark, Subject
from penstock.funnels.outcomes.tables import OutcomeTables
from penstock.funnels.queries.engine import ENGINE_SETTINGS
from penstock.funnels.queries.snapshot import read_profile
from penstock.funnels.statements.counted_units import CountedUnits
from penstock.funnels.statements.query import (
    DataProfile,
    QueryParams,
    Statement,
    StoredBuild,
    Strategy,
)
from penstock.funnels.statements.storing import is_storable
from penstock.warehouse.client import Warehouse
from tests.funnels import reference, seed
from tests.funnels.examples import example_count, example_settings, share_of_cases
from tests.funnels.reports import evaluate
from tests.funnels.strategies import Case, cases
from tests.funnels.test_property import canonical_json, description, difference

EXAMPLES = example_count(30) // 5
SHARES = range(3)

pytestmark = pytest.mark.usefixtures("count_examples")

examples = example_settings(EXAMPLES // len(SHARES))


@pytest.mark.slow("runs many random examples")
@pytest.mark.parametrize("share", SHARES)
def test_stored_outcomes_agree_with_the_direct_evaluation(
    bare_warehouse: Warehouse, share: int
) -> None:
    @share_of_cases(share)
    @examples
    @given(case=cases(CountingUnit.ATTEMPT), chance=st.integers(0, 2**32))
    def agree(case: Case, chance: int) -> None:
        if is_storable(case.definition):
            Stored(bare_warehouse, case, Random(chance)).assert_agreement()

    agree()


class Killed(Exception):
    """Stands for the end of the process between two statements."""


@dataclass
class Stored:
    """A case whose outcomes are stored while its events come in."""

    warehouse: Warehouse
    case: Case
    random: Random
    statements_left: int | None = None

    def assert_agreement(self) -> None:
        seed.make_room(self.warehouse)
        history, mark = seed.isolated(self.case.history)
        # Funnels over provider events are not stored.
        events = [
            replace(event, source="server") if event.source == "provider" else event
            for event in history.events
        ]
        self.random.shuffle(events)
        scopes = tuple(sorted({event.scope_id for event in events}))
        self.params = QueryParams(
            tuple(mark + website for website in self.case.website_ids),  # type: ignore[misc]
            scopes,  # type: ignore[arg-type]
            self.case.start_ms,
            self.case.end_ms,
            self.case.evaluated_at_ms,
            cohort=self.case.cohort,
            page=self.case.page,
        )
        self.subject = Subject(self.case.definition, self.params.website_ids)
        self.tables = OutcomeTables(self.warehouse, self._run)
        self._ship(history, events)
        direct = read_profile(self.warehouse, self.params)
        stored = self._stored(direct)
        self._compare("stored", direct, stored)
        if self.random.random() < 0.3:
            self._fill("scratch", self.case.evaluated_at_ms)
            self._compare("stored from scratch", direct, self._stored(direct))
        self.tables.drop({self.mark.build, "bld_first", "bld_again"})

    def _ship(self, history: reference.History, events: list[reference.Event]) -> None:
        """Store the events in a few shipments; fill after the first, refresh after the others."""
        ends = sorted(self.random.choices(range(len(events) + 1), k=self.random.randint(1, 3)))
        times = sorted(
            self.random.choice([self.case.evaluated_at_ms, event.at_ms])
            for event in self.random.choices(events, k=len(ends))
        )
        times = [min(at_ms, self.case.evaluated_at_ms) for at_ms in times]
        start = 0
        for place, (end, at_ms) in enumerate(zip(ends, times, strict=True)):
            seed.store(self.warehouse, reference.History(tuple(events[start:end]), {}))
            start = end
            if place == 0:
                self._fill("first", at_ms)
            else:
                self._refresh(at_ms)
        seed.store(self.warehouse, reference.History(tuple(events[start:]), history.merges))
        if self.random.random() < 0.2:
            self.warehouse.command("OPTIMIZE TABLE events FINAL")
        if self.random.random() < 0.2:
            gone = self.random.choice(events)
            self.warehouse.command(
                "ALTER TABLE events DELETE WHERE event_id = {id:String} AND website_id = {w:String}"
                " SETTINGS mutations_sync = 1",
                {"id": gone.event_id, "w": gone.website_id},
            )
        self._refresh(self.case.evaluated_at_ms)

    def _fill(self, name: str, at_ms: int) -> None:
        empty = Mark(
            self.subject.outcome, f"bld_{name}", WorkspaceId("wsp"), "fnl", 0, 0, at_ms, 0, 0
        )
        self.tables.drop([empty.build])
        self.mark = self.tables.fill(self.subject, empty)

    def _refresh(self, at_ms: int) -> None:
        backlog = self.tables.backlog(self.subject.website_ids, self.mark)
        if backlog.has_lost:
            self._fill("again", at_ms)
            return
        changes = self.tables.changes(self.subject, self.mark, backlog, at_ms, 10_000)
        assert changes is not None
        if self.random.random() < 0.3:
            self.statements_left = self.random.randint(0, 8)
            with suppress(Killed):
                self.tables.refresh(self.subject, self.mark, backlog, changes, at_ms)
            self.statements_left = None
        self.mark = self.tables.refresh(self.subject, self.mark, backlog, changes, at_ms)

    def _compare(self, name: str, direct: DataProfile, stored: DataProfile) -> None:
        reports = [
            evaluate(self.warehouse, self.case.definition, self.params, profile=profile)
            for profile in (direct, stored)
        ]
        units = [self._units(profile) for profile in (direct, stored)]
        if canonical_json(reports[0]) != canonical_json(reports[1]) or units[0] != units[1]:
            raise AssertionError(
                f"{name} differs (- direct, + stored)\n{difference(*reports)}\n"
                f"{units[0]}\n{units[1]}\n\n{description(self.case)}"
            )

    def _stored(self, profile: DataProfile) -> DataProfile:
        places = range(1, len(self.case.definition.breakdown_properties) + 1)
        return replace(profile, build=StoredBuild(self.mark.build, tuple(places)))

    def _units(self, profile: DataProfile) -> list[Any]:
        counted = CountedUnits(self.case.definition, self.params, profile, Strategy.GENERAL)
        return list(self._run(counted.statement("SELECT * FROM counted ORDER BY unit")))

    def _run(self, statement: Statement) -> Any:
        if self.statements_left is not None:
            if self.statements_left == 0:
                raise Killed
            self.statements_left -= 1
        return self.warehouse.query(statement.sql, statement.parameters, ENGINE_SETTINGS)[1]
