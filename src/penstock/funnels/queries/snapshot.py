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


class SnapshotRequest(NamedTuple):
    """A query that needs a snapshot. as_of_ms: the evaluation time; None for the current time."""

    workspace_id: WorkspaceId
    definition: Definition
    params: QueryParams
    as_of_ms: int | None = None

    def key(self, version: DataVersion) -> Hashable:
        """Return everything that determines the evaluation at a version."""
        params = self.params
        selected = params.website_ids, params.scope_ids, params.start_ms, params.end_ms
        return self.workspace_id, self.definition, *selected, self.as_of_ms, version


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
        self, request: SnapshotRequest, *, is_fresh: bool, only_cached: bool = False
    ) -> DataSnapshot:
        """Take a snapshot for a query. Raises QueryFailed if the engine cannot run a statement.

        only_cached: return an earlier snapshot without waiting, and raise `NotCached` if none is
        still valid.
        """
        read_version = self._versions.read_at_once if only_cached else self._versions.read
        version = read_version(_scope(request.definition, request.params))
        evaluation = self._evaluation(request, version, is_fresh=is_fresh, only_cached=only_cached)
        params = replace(request.params, evaluated_at_ms=evaluation.evaluated_at_ms)
        return DataSnapshot(params, evaluation.profile, version)

    def is_unchanged(
        self, definition: Definition, params: QueryParams, version: DataVersion
    ) -> bool:
        """Whether the stored data that the query reads are the same as at the version."""
        return self._versions.read(_scope(definition, params)) == version

    def _evaluation(
        self, request: SnapshotRequest, version: DataVersion, *, is_fresh: bool, only_cached: bool
    ) -> EvaluationSnapshot:
        """Return an earlier evaluation if its counts are still the same, or else a new one.

        Responses are therefore computed again only when they can differ, and the cohorts and pages
        of a report have the same evaluation time.
        """
        _, definition, params, as_of_ms = request

        def time_ms() -> int:
            return self._clock() if as_of_ms is None else as_of_ms

        def evaluate() -> EvaluationSnapshot:
            evaluated = replace(params, evaluated_at_ms=time_ms())
            profile = self._profiles.read(evaluated, definition.window_s, version)
            return EvaluationSnapshot(evaluated.evaluated_at_ms, profile)

        def is_usable(evaluation: EvaluationSnapshot) -> bool:
            return evaluation.holds_at(time_ms())

        if only_cached:
            return self._evaluations.get_cached(request.key(version), is_usable=is_usable)
        if not is_fresh:
            return evaluate()
        return self._evaluations.get(
            request.key(version),
            evaluate,
            is_usable=is_usable,
            is_current=lambda: self.is_unchanged(definition, params, version),
        ).value


def _scope(definition: Definition, params: QueryParams) -> VersionScope:
    reads_traits = params.reads_all_traits or bool(definition.read_traits)
    return VersionScope(
        params.website_ids, params.scope_ids, params.scope_ids if reads_traits else ()
    )
