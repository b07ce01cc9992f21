"""HTTP routes for workspace settings."""

from penstock.accounts.model import Caller
from penstock.accounts.workspace.model import WorkspaceSettings
from penstock.accounts.workspace.schema import WorkspaceChanges, WorkspaceSettingsRecord
from penstock.accounts.workspace.service import WorkspaceService
from penstock.http.handlers import route
from penstock.http.read_only import ReadOnlyFields

_PATH = "/api/settings/workspace"


def _record(limits: WorkspaceService, settings: WorkspaceSettings) -> WorkspaceSettingsRecord:
    return WorkspaceSettingsRecord.from_object(settings, in_force=limits.in_force(settings))


@route("GET", _PATH, "Settings of the workspace", tag="accounts")
def read_workspace_settings(caller: Caller, limits: WorkspaceService) -> WorkspaceSettingsRecord:
    return _record(limits, limits.settings(caller.workspace_id))


@route("PATCH", _PATH, "Change settings of the workspace", tag="accounts")
def change_workspace_settings(
    caller: Caller, limits: WorkspaceService, changes: WorkspaceChanges, read_only: ReadOnlyFields
) -> WorkspaceSettingsRecord:
    """Changes the name, the query limits, what names people, or what may leave the dashboard.
    Limits cannot exceed the operator's.

    Omitted fields keep their value; null restores the default. The read-only field
    `inForce` may be sent back with its current value.
    """
    read_only.check(_record(limits, limits.settings(caller.workspace_id)))
    return _record(limits, limits.change(caller, changes))


ROUTES = (read_workspace_settings, change_workspace_settings)
