"""Use cases for workspace settings: the name, and query limits within the operator's."""

from dataclasses import replace
from typing import Any

from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.model import Caller
from penstock.accounts.workspace import store
from penstock.accounts.workspace.model import QueryLimits, WorkspaceSettings
from penstock.base.clock import Clock
from penstock.base.errors import Fault, Invalid
from penstock.base.ids import WorkspaceId
from penstock.metadb.database import Database
from penstock.metadb.record_cache import RecordCache
from penstock.settings import Settings

_CACHE_TTL_S = 2.0
_LIMIT_NAMES = {"timeout_s": "queryTimeoutSeconds", "memory_bytes": "queryMemoryBytes"}


class WorkspaceService:
    """Settings of a workspace. Methods block: call them from a worker thread."""

    def __init__(self, database: Database, settings: Settings, clock: Clock) -> None:
        self._database, self._clock, self._max_timeout_s, self._max_bytes = (
            database,
            clock,
            settings.query_timeout_s,
            settings.query_memory_bytes,
        )
        self._limits_cache: RecordCache[WorkspaceId, QueryLimits] = RecordCache(
            database, "workspaces", _CACHE_TTL_S
        )

    def own_limits(self, workspace_id: WorkspaceId) -> QueryLimits:
        """Return the limits that the workspace has set itself."""
        return self.settings(workspace_id).limits

    def settings(self, workspace_id: WorkspaceId) -> WorkspaceSettings:
        with self._database.read() as db:
            return store.workspace_settings(db, workspace_id)

    def change(
        self, actor: Caller, changes: dict[str, Any], name: str | None = None
    ) -> WorkspaceSettings:
        """Change the settings.

        changes: new values for fields of `QueryLimits`, by field name. name: the new name; None
        leaves it unchanged. Raises `Invalid` if a limit is above the operator's.
        """
        faults = []
        if (changes.get("timeout_s") or 0) > self._max_timeout_s:
            faults.append(
                _above_limit(
                    _LIMIT_NAMES["timeout_s"],
                    f"{self._max_timeout_s:g}",
                    "PENSTOCK_QUERY_TIMEOUT_S",
                )
            )
        if (changes.get("memory_bytes") or 0) > self._max_bytes:
            faults.append(
                _above_limit(
                    _LIMIT_NAMES["memory_bytes"],
                    f"{self._max_bytes:,}",
                    "PENSTOCK_QUERY_MEMORY_BYTES",
                )
            )
        if faults:
            raise Invalid(faults)
        workspace_id = actor.workspace_id
        with self._database.write() as db:
            before = store.workspace_settings(db, workspace_id, lock=True)
            after = WorkspaceSettings(name or before.name, replace(before.limits, **changes))
            changed = [
                *(["name"] if after.name != before.name else []),
                *(name for field, name in _LIMIT_NAMES.items() if _differs(before, after, field)),
            ]
            if not changed:
                return before
            store.update_workspace(db, workspace_id, after)
            target = f"{workspace_id} {after.name}: {', '.join(changed)}"
            audit.record(db, actor, Action.WORKSPACE_CHANGED, target, self._clock())
            self._limits_cache.announce(db)
        self._limits_cache.forget(workspace_id)
        return after

    def cap_limits(self, own_limits: QueryLimits) -> tuple[float, int]:
        """Return the limits in seconds and bytes, capped at the operator's limits."""
        return min(own_limits.timeout_s or self._max_timeout_s, self._max_timeout_s), min(
            own_limits.memory_bytes or self._max_bytes, self._max_bytes
        )

    def effective_limits(self, workspace_id: WorkspaceId) -> tuple[float, int]:
        """Return the seconds and bytes that a query may currently use."""
        own_limits = self._limits_cache.load(workspace_id, lambda: self.own_limits(workspace_id))
        assert own_limits is not None  # own_limits never returns None
        return self.cap_limits(own_limits)


def _above_limit(field: str, limit: str, setting: str) -> Fault:
    return Fault(
        field, "less_than_equal", f"Must be at most {limit}, the operator's limit ({setting})."
    )


def _differs(before: WorkspaceSettings, after: WorkspaceSettings, limit: str) -> bool:
    return bool(getattr(before.limits, limit) != getattr(after.limits, limit))
