"""Settings of a workspace: its name, and what its queries may take, within what the operator allows."""

from dataclasses import replace
from typing import Any

from penstock.accounts import store
from penstock.accounts.model import QueryLimits, WorkspaceSettings
from penstock.accounts.recent import Recent
from penstock.base.errors import Fault, Invalid
from penstock.base.ids import WorkspaceId
from penstock.metadb.database import Database
from penstock.settings import Settings

_BELIEVED_S = 2.0


class LimitService:
    """Use cases of a workspace's settings. Its methods block; call them from a worker thread."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database, self._most_s, self._most_bytes = database, settings.query_timeout_s, settings.query_memory_bytes
        self._chosen: Recent[WorkspaceId, QueryLimits] = Recent(_BELIEVED_S)

    def chosen(self, workspace_id: WorkspaceId) -> QueryLimits:
        """The limits that the workspace chose, as it did."""
        return self.settings(workspace_id).limits

    def settings(self, workspace_id: WorkspaceId) -> WorkspaceSettings:
        with self._database.read() as db:
            return store.workspace_settings(db, workspace_id)

    def change(self, workspace_id: WorkspaceId, changes: dict[str, Any], name: str | None = None) -> WorkspaceSettings:
        """Choose anew. changes: some fields of `QueryLimits`. name: None keeps it.

        Invalid when limits are above what the operator allows.
        """
        faults = []
        if (changes.get("timeout_s") or 0) > self._most_s:
            faults.append(_above("queryTimeoutSeconds", f"{self._most_s:g}", "PENSTOCK_QUERY_TIMEOUT_S"))
        if (changes.get("memory_bytes") or 0) > self._most_bytes:
            faults.append(_above("queryMemoryBytes", str(self._most_bytes), "PENSTOCK_QUERY_MEMORY_BYTES"))
        if faults:
            raise Invalid(faults)
        with self._database.write() as db:
            before = store.workspace_settings(db, workspace_id, hold=True)
            after = WorkspaceSettings(name or before.name, replace(before.limits, **changes))
            store.change_workspace(db, workspace_id, after)
        self._chosen.forget(workspace_id)
        return after

    def bounded(self, chosen: QueryLimits) -> tuple[float, int]:
        """Seconds and bytes that a query may take."""
        return min(chosen.timeout_s or self._most_s, self._most_s), min(chosen.memory_bytes or self._most_bytes, self._most_bytes)

    def in_force(self, workspace_id: WorkspaceId) -> tuple[float, int]:
        """Seconds and bytes that a query may take now. What another node changed holds here within two seconds."""
        chosen = self._chosen.load(workspace_id, lambda: self.chosen(workspace_id))
        assert chosen is not None  # `chosen` always answers
        return self.bounded(chosen)


def _above(field: str, most: str, setting: str) -> Fault:
    return Fault(field, "less_than_equal", f"Must be at most {most}, which the operator allows ({setting}).")
