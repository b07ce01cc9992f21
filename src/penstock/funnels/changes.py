"""The units of a funnel whose stored outcomes have changed, for rooms that report each change."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from penstock.base.clock import LATEST_MS
from penstock.base.ids import WorkspaceId
from penstock.base.scalar import Scalar
from penstock.funnels.definitions.ad_hoc import AdHocChanges
from penstock.funnels.outcomes.model import DuePosition, RowPosition
from penstock.funnels.outcomes.service import OutcomeService
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.queries.parameters import Selection
from penstock.funnels.queries.resolve import SavedFunnel
from penstock.funnels.queries.schema import DirectReason
from penstock.funnels.statements.query import StoredBuild
from penstock.funnels.statements.units import chosen_units
from penstock.funnels.units.service import entry_values, names_of, people_of
from penstock.metadb.person import StoredVisitor

_REQUESTED_S = 3600.0
"""Time that a query pretends to have taken, so that its outcomes are stored."""


class UnitOutcome(NamedTuple):
    """The outcome of a unit that entered.

    unit: key of the unit. name: attempt ID. visitor: the visitor of the entry, if known. done_ms:
    times of the completed steps. values: values of the breakdown properties.
    """

    unit: int
    name: str
    visitor: StoredVisitor | None
    user_id: str | None
    done_ms: tuple[int, ...]
    excluded_ms: int | None
    window_end_ms: int
    values: Mapping[str, Scalar | None]


class StoredFunnel(NamedTuple):
    """A funnel whose stored outcomes include all events until now.

    now_ms: while nothing changes, it is later than the evaluation time of the query.
    """

    context: QueryContext
    build: StoredBuild
    now_ms: int

    @property
    def steps(self) -> int:
        return len(self.context.definition.steps)

    @property
    def window_ms(self) -> int:
        return (self.context.definition.window_s or 0) * 1000


class OutcomeChanges:
    """Reads changes of stored outcomes. Methods block, and raise `Unavailable` and the errors of
    `FunnelQueryRunner.prepare`; those with a position also raise `QueryFailed`.
    """

    def __init__(self, runner: FunnelQueryRunner, outcomes: OutcomeService) -> None:
        self._runner, self._outcomes = runner, outcomes

    def open(
        self, workspace_id: WorkspaceId, funnel_id: str, website_id: str | None
    ) -> StoredFunnel | DirectReason:
        """Bring the stored outcomes of a funnel up to date, with its internal traffic.

        Returns the reason if they are not stored. If they can be, they are built from now on.
        """
        now_ms = self._runner.now_ms()
        context = self._runner.prepare(
            workspace_id,
            SavedFunnel(funnel_id, None),
            Selection(website_id, ad_hoc=AdHocChanges(internal=True)),
        )
        build = self._outcomes.find_build(context)
        if isinstance(build, StoredBuild):
            return StoredFunnel(context, build, now_ms)
        self._outcomes.note_direct(context, _REQUESTED_S)
        return build

    def changed(
        self, funnel: StoredFunnel, since: RowPosition, entered_from_ms: int, max_rows: int
    ) -> tuple[set[int], RowPosition] | None:
        """See `OutcomeService.changed_units`."""
        return self._outcomes.changed_units(
            funnel.context, funnel.build, since, entered_from_ms, max_rows
        )

    def due(
        self, funnel: StoredFunnel, after: DuePosition, until_ms: int, max_rows: int
    ) -> tuple[set[int], DuePosition]:
        """See `OutcomeService.due_units`."""
        return self._outcomes.due_units(funnel.context, funnel.build, after, until_ms, max_rows)

    def read(
        self, funnel: StoredFunnel, units: Iterable[int]
    ) -> Mapping[int, UnitOutcome | None] | None:
        """Return the current outcomes of units by their key; None for a unit that has not entered.

        Units whose entry was deleted meanwhile are missing. Returns None if the build is no longer
        in use.
        """
        context, keys = funnel.context, sorted(units)
        if not keys:
            return {}
        profile = replace(context.profile, build=funnel.build)
        with self._outcomes.keep(funnel.build):
            statement = chosen_units(context.counted(profile), keys)
            rows = self._runner.fetch_events(context, statement).rows
            if not self._outcomes.is_used(context, funnel.build):
                return None
        # Rows may include later events than the query, such as the entry of a unit.
        names = names_of(self._runner, context.with_params(evaluated_at_ms=LATEST_MS), rows)
        people = people_of(self._runner, context, names)
        outcomes: dict[int, UnitOutcome | None] = dict.fromkeys(keys)
        for row in rows:
            outcomes.pop(row["unit"])
            if name := names.by_unit.get(row["unit"]):
                person = people.get(row["unit"])
                is_excluded = row["excluded_after"] >= 0
                outcomes[row["unit"]] = UnitOutcome(
                    row["unit"],
                    name,
                    names.visitors.get(row["unit"]),
                    person and person.user_id,
                    tuple(row["done"]),
                    row["entry_ts"] + row["excluded_after"] if is_excluded else None,
                    row["window_end"],
                    entry_values(context.definition, row),
                )
        return outcomes
