"""Step 4: the version and profile of the data, and the moment that the query is evaluated at.

Version and evaluation time make answers reusable: the same statement, version and evaluation time
always give the same rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from penstock.base.clock import LATEST_MS, Clock
from penstock.base.ids import WorkspaceId
from penstock.funnels.definitions.model import Definition
from penstock.funnels.queries.history import MAX_PAUSE_MS
from penstock.funnels.queries.single_flight_cache import SingleFlightCache
from penstock.funnels.queries.versions import DataVersion, VersionReader
from penstock.funnels.statements.query import DataProfile, QueryParams
from penstock.warehouse.client import Warehouse
from penstock.warehouse.queries import load

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
    """What step 4 hands on. params: with the evaluation time of the snapshot."""

    params: QueryParams
    profile: DataProfile
    version: DataVersion


class SnapshotReader:
    """Reads versions and profiles, each once while nothing changes. Methods block."""

    def __init__(self, warehouse: Warehouse, clock: Clock) -> None:
        self._warehouse, self._clock = warehouse, clock
        self._versions = VersionReader(warehouse)
        self._evaluations: SingleFlightCache[EvaluationSnapshot] = SingleFlightCache(
            max_weight=_MAX_CACHED
        )

    def take(
        self,
        workspace_id: WorkspaceId,
        definition: Definition,
        params: QueryParams,
        *,
        is_fresh: bool,
    ) -> DataSnapshot:
        """QueryFailed when the engine stops or cannot answer."""
        version = self._versions.read(params.website_ids, params.scope_ids)
        evaluation = self._evaluation(workspace_id, definition, params, version, is_fresh=is_fresh)
        return DataSnapshot(
            replace(params, evaluated_at_ms=evaluation.evaluated_at_ms), evaluation.profile, version
        )

    def is_unchanged(self, params: QueryParams, version: DataVersion) -> bool:
        """Whether the stored data are still those of the version."""
        return self._versions.read(params.website_ids, params.scope_ids) == version

    def _evaluation(
        self,
        workspace_id: WorkspaceId,
        definition: Definition,
        params: QueryParams,
        version: DataVersion,
        *,
        is_fresh: bool,
    ) -> EvaluationSnapshot:
        """Now, or an earlier evaluation since which neither data nor time changed a count.

        So an answer is computed again only when it can differ, and the cohorts and pages of one
        report have the same evaluation time.
        """

        def evaluate_now() -> EvaluationSnapshot:
            now = replace(params, evaluated_at_ms=self._clock())
            profile = read_profile(self._warehouse, now, definition.window_s)
            return EvaluationSnapshot(now.evaluated_at_ms, profile)

        if not is_fresh:
            return evaluate_now()
        key = (
            workspace_id,
            definition,
            params.website_ids,
            params.scope_ids,
            params.start_ms,
            params.end_ms,
            version,
        )
        return self._evaluations.get(
            key,
            evaluate_now,
            is_usable=lambda evaluation: evaluation.holds_at(self._clock()),
            is_current=lambda: self.is_unchanged(params, version),
        ).value


def read_profile(
    warehouse: Warehouse, params: QueryParams, window_s: int | None = None
) -> DataProfile:
    """The profile of the retained events of the websites.

    window_s: conversion window of the funnel; None: unlimited.
    """
    open_from_ms, open_until_ms = _entries_with_open_windows(params, window_s)
    row = _read_row(
        warehouse,
        "data_profile",
        params,
        {
            "evaluated_at": params.evaluated_at_ms,
            "open_from": open_from_ms,
            "open_until": open_until_ms,
            "history_from": max((params.start_ms or 0) - MAX_PAUSE_MS, 0),
        },
    )
    changes = [row["next_event_ms"] - 1] if row["next_event_ms"] else []
    if row["first_open_ms"] and window_s is not None:
        changes.append(row["first_open_ms"] + window_s * 1000)
    return DataProfile(
        events=row["events"],
        first_event_ms=row["first_event_ms"] if row["events"] else None,
        last_event_ms=row["last_event_ms"] if row["events"] else None,
        has_provider_events=bool(row["has_provider_events"]),
        has_aliases=bool(row["has_aliases"]),
        holds_until_ms=min(changes, default=None),
        history_start_ms=row["history_start_ms"],
    )


def _entries_with_open_windows(params: QueryParams, window_s: int | None) -> tuple[int, int]:
    """From when, and until before when, an event may be an entry whose window is still open."""
    if window_s is None:
        return 0, 0  # a window that never ends does not change with time
    since_ms = max(params.evaluated_at_ms - window_s * 1000, params.start_ms or 0, 0)
    return since_ms, LATEST_MS if params.end_ms is None else params.end_ms


def _read_row(
    warehouse: Warehouse, name: str, params: QueryParams, more: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The only row of a statement in `sql/`, by column."""
    scope = {"websites": list(params.website_ids), "scopes": list(params.scope_ids)}
    names, [row] = warehouse.query(
        load("penstock.funnels.queries", name), {**scope, **(more or {})}
    )
    return dict(zip(names, row, strict=True))
