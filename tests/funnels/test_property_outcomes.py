"""Stored outcomes against the direct evaluation, on random funnels and histories.

Events come in random shipments, with late ones, future ones, imported ones, ties and merges; after
each shipment the changed units are folded again. Now and then the definition is edited, some events
are deleted, or the process is killed between two statements. In the end all figures and all units
are those of a direct evaluation, and so says the comparison that runs in the background.

Shares `PENSTOCK_EXAMPLES` with the reports' property test: a fifth of it runs here.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import WorkspaceId
from penstock.funnels.definitions.model import CountingUnit, Definition
from penstock.funnels.outcomes.model import Mark, Subject
from penstock.funnels.outcomes.rows import OutcomeRows
from penstock.funnels.queries.engine import ENGINE_SETTINGS
from penstock.funnels.queries.profiles import read_profile
from penstock.funnels.statements import relations
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
from tests.funnels.examples import example_count, example_settings, share_of_cases, shares_of
from tests.funnels.reports import evaluate
from tests.funnels.strategies import WINDOWS_S, Case, cases
from tests.funnels.test_property import canonical_json, description, difference

EXAMPLES = example_count(30) // 5
SHARES = shares_of(EXAMPLES, least=1)

pytestmark = [pytest.mark.usefixtures("count_examples")]

examples = example_settings(EXAMPLES // len(SHARES))

_numbers = count(1)


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
            assert_agreement(bare_warehouse, case, Random(chance))

    agree()


class Killed(Exception):
    """Stands for the end of the process between two statements."""


class MortalRows(OutcomeRows):
    """statements_left: before the end of the process; None if it continues."""

    statements_left: int | None = None

    def _run(self, statement: Statement) -> Any:
        if self.statements_left is not None:
            if self.statements_left == 0:
                raise Killed
            self.statements_left -= 1
        return super()._run(statement)


class StoredFunnel:
    """A definition over some websites, whose outcomes are stored while events come in."""

    def __init__(
        self, warehouse: Warehouse, definition: Definition, params: QueryParams, random: Random
    ) -> None:
        self.warehouse, self.definition, self.params, self.random = (
            warehouse,
            definition,
            params,
            random,
        )
        self.subject = Subject(definition, params.website_ids)
        # Sometimes a build folds a share of the units after the other.
        self.rows = MortalRows(warehouse, events_per_fold=random.choice([20, 1_000_000]))
        self.mark = Mark(self.subject.outcome, "", WorkspaceId("wsp"), "fnl", 0, 0, 0, 0, 0)

    def fill(self, at_ms: int, shipment: int) -> None:
        """Build from scratch, with the fold of few events or the one of many."""
        if self.mark.build:
            self.rows.drop([self.mark.build])
        build = f"bld_{next(_numbers)}"  # an edit may be none: then both have the same outcome
        empty = replace(self.mark, build=build, read_until_ms=at_ms, shipment=0, events=0)
        with self._fold_of_many():
            self.mark = self.rows.fill(self.subject, empty, shipment)

    def refresh(self, at_ms: int, shipment: int) -> None:
        """Fold what changed; sometimes once more after a kill between two statements."""
        backlog = self.rows.backlog(self.subject.website_ids, self.mark, shipment)
        if backlog.has_lost:
            self.fill(at_ms, shipment)
            return
        changes = self.rows.changed_units(self.subject, self.mark, backlog, at_ms, 10_000)
        assert changes is not None
        if self.random.random() < 0.3:
            self.rows.statements_left = self.random.randint(0, 8)
            with suppress(Killed), self._fold_of_many():
                self.rows.refresh(self.subject, self.mark, backlog, changes, at_ms)
            self.rows.statements_left = None
        with self._fold_of_many():
            self.mark = self.rows.refresh(self.subject, self.mark, backlog, changes, at_ms)

    def compare(self, case: Case) -> None:
        """All figures and units; and the comparison in the background finds no difference."""
        direct = read_profile(self.warehouse, self.params)
        positions = range(1, len(self.definition.breakdown_properties) + 1)
        stored = replace(direct, build=StoredBuild(self.mark.build, tuple(positions)))
        reports = [
            evaluate(self.warehouse, self.definition, self.params, profile=profile)
            for profile in (direct, stored)
        ]
        units = [self._units(profile) for profile in (direct, stored)]
        if canonical_json(reports[0]) != canonical_json(reports[1]) or units[0] != units[1]:
            raise AssertionError(
                f"stored outcomes differ (- direct, + stored)\n{difference(*reports)}\n"
                f"{units[0]}\n{units[1]}\n\n{self.definition}\n{description(case)}"
            )
        share = self.random.choice([(1, 0), (2, 0), (2, 1)])
        with self._fold_of_many():
            agrees = self.rows.agrees(self.subject, self.mark, share)
        assert agrees is True, f"{share}\n{self.definition}\n{description(case)}"

    def drop(self) -> None:
        self.rows.drop([self.mark.build])

    @contextmanager
    def _fold_of_many(self) -> Iterator[None]:
        """Sometimes these few events are folded as many would be."""
        with pytest.MonkeyPatch.context() as patch:
            if self.random.random() < 0.5:
                patch.setattr(relations, "WORTH_PACKING", 1)
            yield

    def _units(self, profile: DataProfile) -> list[Any]:
        counted = CountedUnits(self.definition, self.params, profile, Strategy.GENERAL)
        statement = counted.statement("SELECT * FROM counted ORDER BY unit")
        settings = {**ENGINE_SETTINGS, **statement.settings}
        return list(self.warehouse.query(statement.sql, statement.parameters, settings)[1])


def assert_agreement(warehouse: Warehouse, case: Case, random: Random) -> None:
    """Ship the events in a few portions; build after the first, refresh after the others."""
    seed.make_room(warehouse)
    history, mark = seed.isolated(case.history)
    # Funnels over provider events are not stored.
    events = [
        replace(event, source="server") if event.source == "provider" else event
        for event in history.events
    ]
    random.shuffle(events)
    params = QueryParams(
        tuple(mark + website for website in case.website_ids),  # type: ignore[misc]
        tuple(sorted({event.scope_id for event in events})),  # type: ignore[arg-type]
        case.start_ms,
        case.end_ms,
        case.evaluated_at_ms,
        cohort=case.cohort,
        page=case.page,
        settled=case.settled,
    )
    saved = replace(case.definition, entry_filters=(), internal_traffic=())
    case = replace(case, definition=saved, filters=(), internal=())
    funnels = [StoredFunnel(warehouse, case.definition, params, random)]
    portions = split(events, random)
    times = evaluation_times(case, events, len(portions) - 1, random)
    times = [*times, case.evaluated_at_ms]
    for shipment, (portion, at_ms) in enumerate(zip(portions, times, strict=True)):
        is_last = portion is portions[-1]
        merges = history.merges if is_last else {}
        seed.store(warehouse, reference.History(tuple(portion), merges), shipment=shipment)
        if is_last:
            disturb(warehouse, events, random)
        for funnel in funnels:
            bring_up_to_date = funnel.refresh if funnel.mark.build else funnel.fill
            bring_up_to_date(at_ms, shipment)
        if len(funnels) == 1 and random.random() < 0.3:
            funnels.append(StoredFunnel(warehouse, *another(case, params, random), random))
            funnels[-1].fill(at_ms, shipment)
    for funnel in funnels:
        funnel.compare(case)
        if random.random() < 0.2:
            funnel.fill(case.evaluated_at_ms, shipment)
            funnel.compare(case)
        funnel.drop()


def split(events: list[reference.Event], random: Random) -> list[list[reference.Event]]:
    ends = sorted(random.choices(range(len(events) + 1), k=random.randint(1, 3)))
    return [events[start:end] for start, end in zip([0, *ends], [*ends, len(events)], strict=True)]


def evaluation_times(
    case: Case, events: list[reference.Event], count: int, random: Random
) -> list[int]:
    """When rows are brought up to date: some events are still in the future then."""
    times = [
        random.choice([case.evaluated_at_ms, event.at_ms])
        for event in random.choices(events, k=count)
    ]
    return sorted(min(at_ms, case.evaluated_at_ms) for at_ms in times)


def disturb(warehouse: Warehouse, events: list[reference.Event], random: Random) -> None:
    """Sometimes the engine merges its parts, and an event is deleted."""
    if random.random() < 0.2:
        seed.merge_parts(warehouse)
    if random.random() < 0.2:
        gone = random.choice(events)
        warehouse.command(
            "ALTER TABLE events DELETE WHERE event_id = {id:String} AND website_id = {w:String}"
            " SETTINGS mutations_sync = 1",
            {"id": gone.event_id, "w": gone.website_id},
        )


def another(case: Case, params: QueryParams, random: Random) -> tuple[Definition, QueryParams]:
    """An edit of the funnel, or the funnel over one website; its rows lie beside the first ones."""
    definition, steps = case.definition, len(case.definition.steps)
    choice = random.randrange(4)
    if choice == 0 and steps > 2 and not definition.rows[-1].diagnostic:
        definition = replace(definition, rows=definition.rows[:-1])
    elif choice == 1:
        definition = replace(definition, sequence_property=None)
    elif choice == 2:
        definition = replace(
            definition, breakdown_properties=definition.breakdown_properties[::-1][:2]
        )
        params = replace(params, cohort={})
    elif len(params.website_ids) > 1:
        return definition, replace(params, website_ids=params.website_ids[:1])
    return replace(definition, window_s=random.choice(WINDOWS_S)), params
