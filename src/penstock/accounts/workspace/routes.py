"""HTTP routes for workspace settings."""

from anyio import to_thread
from litestar import Response, get, patch
from litestar.di import NamedDependency

from penstock.accounts.model import Caller
from penstock.accounts.workspace.model import WorkspaceSettings
from penstock.accounts.workspace.schema import (
    LimitsRecord,
    WorkspaceChanges,
    WorkspaceSettingsRecord,
)
from penstock.accounts.workspace.service import WorkspaceService
from penstock.http.answers import answer
from penstock.http.openapi import described
from penstock.http.read_only import read_changes
from penstock.http.requests import AnyRequest


def _record(limits: WorkspaceService, settings: WorkspaceSettings) -> WorkspaceSettingsRecord:
    own_limits = settings.limits
    timeout_s, memory_bytes = limits.cap_limits(own_limits)
    return WorkspaceSettingsRecord(
        name=settings.name,
        query_timeout_seconds=own_limits.timeout_s,
        query_memory_bytes=own_limits.memory_bytes,
        in_force=LimitsRecord(query_timeout_seconds=timeout_s, query_memory_bytes=memory_bytes),
    )


@get(
    "/api/settings/workspace",
    opt=described("Settings of the workspace", answers=WorkspaceSettingsRecord, tag="accounts"),
)
async def read_workspace_settings(
    caller: NamedDependency[Caller], limits: NamedDependency[WorkspaceService]
) -> Response[bytes]:
    return answer(_record(limits, await to_thread.run_sync(limits.settings, caller.workspace_id)))


@patch(
    "/api/settings/workspace",
    opt=described(
        "Change settings of the workspace",
        body=WorkspaceChanges,
        answers=WorkspaceSettingsRecord,
        takes_read_only=True,
        tag="accounts",
    ),
)
async def change_workspace_settings(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    limits: NamedDependency[WorkspaceService],
) -> Response[bytes]:
    """Changes the name or the query limits. Limits cannot exceed the operator's.

    Omitted fields keep their value; null restores the operator's limit. The read-only field
    `inForce` may be sent back with its current value.
    """
    changes, read_only = await read_changes(request, WorkspaceChanges, WorkspaceSettingsRecord)
    stored = await to_thread.run_sync(limits.settings, caller.workspace_id)
    read_only.check(_record(limits, stored))
    return answer(
        _record(
            limits,
            await to_thread.run_sync(limits.change, caller, changes.limits(), changes.name),
        )
    )


ROUTES = (read_workspace_settings, change_workspace_settings)
