"""HTTP routes for workspace settings."""

from penstock.accounts.model import Caller
from penstock.accounts.workspace.model import WorkspaceSettings
from penstock.accounts.workspace.schema import (
    LimitsRecord,
    WorkspaceChanges,
    WorkspaceSettingsRecord,
)
from penstock.accounts.workspace.service import WorkspaceService
from penstock.http.handlers import route
from penstock.http.read_only import ReadOnlyFields

_PATH = "/api/settings/workspace"


def _record(limits: WorkspaceService, settings: WorkspaceSettings) -> WorkspaceSettingsRecord:
    own_limits = settings.limits
    timeout_s, memory_bytes = limits.cap_limits(own_limits)
    return WorkspaceSettingsRecord(
        name=settings.name,
        query_timeout_seconds=own_limits.timeout_s,
        query_memory_bytes=own_limits.memory_bytes,
        in_force=LimitsRecord(query_timeout_seconds=timeout_s, query_memory_bytes=memory_bytes),
    )


@route("GET", _PATH, "Settings of the workspace", tag="accounts")
def read_workspace_settings(caller: Caller, limits: WorkspaceService) -> WorkspaceSettingsRecord:
    return _record(limits, limits.settings(caller.workspace_id))


@route("PATCH", _PATH, "Change settings of the workspace", tag="accounts")
def change_workspace_settings(
    caller: Caller, limits: WorkspaceService, changes: WorkspaceChanges, read_only: ReadOnlyFields
) -> WorkspaceSettingsRecord:
    """Changes the name or the query limits. Limits cannot exceed the operator's.

    Omitted fields keep their value; null restores the operator's limit. The read-only field
    `inForce` may be sent back with its current value.
    """
    read_only.check(_record(limits, limits.settings(caller.workspace_id)))
    return _record(limits, limits.change(caller, changes.limits(), changes.name))


ROUTES = (read_workspace_settings, change_workspace_settings)
