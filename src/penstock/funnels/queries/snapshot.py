"""Step 4: the version and profile of the data, and the evaluation time.

Version and evaluation time make results reusable: the same statement, version and evaluation time
always give the same rows.
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.base.clock import Clock
from penstock.base.ids import WorkspaceId
from penstock.funnels.definitions.model import Definition
from penstock.funnels.queries.profiles import ProfileReader
from penstock.funnels.queries.single_flight_cache import SingleFlightCache
from penstock.funnels.queries.versions import DataVersion, VersionReader, VersionScope
from penstock.funnels.statements.query import DataProfile, QueryParams
from penstock.warehouse.client import Warehouse

_MAX_CACHED = 1_000


class EvaluationSnapshot(NamedTuple):
    """An evaluation time, and the profile of the data at that time."""

    evaluated_at_ms: int
    profile: DataProfile

    def holds_at(self, now_ms: int) -> bool:
        """Whether the same query over the same data would have the same counts at `now_ms`."""
        until_ms = self.profile.holds_until_ms
        return self.evaluated_at_ms <= now_ms and (until_ms is None or now_ms <= until_ms)


@dataclass(frozen=True, slots=True)
class DataSnapshot:
    """The result of step 4. params: the query's parameters, evaluated at the snapshot's time."""

    params: QueryParams
    profile: DataProfile
    version: DataVersion


class SnapshotReader:
    """Reads versions and profiles, each once while nothing changes. Methods block."""

    def __init__(self, warehouse: Warehouse, clock: Clock) -> None:
        self._clock = clock
        self._versions, self._profiles = VersionReader(warehouse), ProfileReader(warehouse)
        self._evaluations: SingleFlightCache[EvaluationSnapshot] = SingleFlightCache(
            max_weight=_MAX_CACHED
        )

    def take(
        self,
        workspace_id: WorkspaceId,
        definition: Definition,
        params: QueryParams,
        as_of_ms: int | None = None,
        *,
        is_fresh: bool,
    ) -> DataSnapshot:
        """Take a snapshot for a query. Raises QueryFailed if the engine cannot run a statement.

        as_of_ms: the evaluation time; None for the current time.
        """
        version = self._versions.read(_scope(definition, params))
        evaluation = self._evaluation(
            workspace_id, definition, params, as_of_ms, version, is_fresh=is_fresh
        )
        return _snapshot(params, evaluation, version)

    def take_cached(
        self,
        workspace_id: WorkspaceId,
        definition: Definition,
        params: QueryParams,
        as_of_ms: int | None = None,
    ) -> DataSnapshot:
        """Return an earlier snapshot without waiting. Raises `NotCached` if none is still valid."""
        version = self._versions.read_at_once(_scope(definition, params))
        evaluation = self._evaluations.get_cached(
            _evaluation_key(workspace_id, definition, params, as_of_ms, version),
            is_usable=lambda evaluation: evaluation.holds_at(self._time(as_of_ms)),
        )
        return _snapshot(params, evaluation, version)

    def is_unchanged(
        self, definition: Definition, params: QueryParams, version: DataVersion
    ) -> bool:
        """Whether the stored data that the query reads are the same as at the version."""
        return self._versions.read(_scope(definition, params)) == version

    def _evaluation(
        self,
        workspace_id: WorkspaceId,
        definition: Definition,
        params: QueryParams,
        as_of_ms: int | None,
        version: DataVersion,
        *,
        is_fresh: bool,
    ) -> EvaluationSnapshot:
        """Return an earlier evaluation if its counts are still the same, or else a new one.

        Responses are therefore computed again only when they can differ, and the cohorts and pages
        of a report have the same evaluation time.
        """

        def evaluate() -> EvaluationSnapshot:
            evaluated = replace(params, evaluated_at_ms=self._time(as_of_ms))
            profile = self._profiles.read(evaluated, definition.window_s, version)
            return EvaluationSnapshot(evaluated.evaluated_at_ms, profile)

        if not is_fresh:
            return evaluate()
        return self._evaluations.get(
            _evaluation_key(workspace_id, definition, params, as_of_ms, version),
            evaluate,
            is_usable=lambda evaluation: evaluation.holds_at(self._time(as_of_ms)),
            is_current=lambda: self.is_unchanged(definition, params, version),
        ).value

    def _time(self, as_of_ms: int | None) -> int:
        return self._clock() if as_of_ms is None else as_of_ms


def _scope(definition: Definition, params: QueryParams) -> VersionScope:
    reads_traits = params.reads_all_traits or bool(definition.read_traits)
    return VersionScope(
        params.website_ids, params.scope_ids, params.scope_ids if reads_traits else ()
    )


def _evaluation_key(
    workspace_id: WorkspaceId,
    definition: Definition,
    params: QueryParams,
    as_of_ms: int | None,
    version: DataVersion,
) -> Hashable:
    return (
        workspace_id,
        definition,
        params.website_ids,
        params.scope_ids,
        params.start_ms,
        params.end_ms,
        as_of_ms,
        version,
    )


def _snapshot(
    params: QueryParams, evaluation: EvaluationSnapshot, version: DataVersion
) -> DataSnapshot:
    return DataSnapshot(
        replace(params, evaluated_at_ms=evaluation.evaluated_at_ms), evaluation.profile, version
    )
