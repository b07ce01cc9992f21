"""HTTP of a workspace's settings."""

from typing import Annotated, Any

from anyio import to_thread
from litestar import Request, Response, get, patch
from litestar.di import NamedDependency
from pydantic import AfterValidator, Field

from penstock.accounts.limits import LimitService
from penstock.accounts.model import Caller, WorkspaceSettings
from penstock.accounts.schema import not_null
from penstock.http.answers import answer
from penstock.http.bodies import read_json
from penstock.http.openapi import described
from penstock.http.schema import Input, Name, Record
from penstock.settings import MIN_QUERY_BYTES


class WorkspaceChanges(Input):
    """A field that is left out stays; a limit of null goes back to the operator's."""

    name: Annotated[Name | None, AfterValidator(not_null)] = None
    query_timeout_seconds: Annotated[float | None, Field(ge=0.1, description="Longest time for one query.")] = None
    query_memory_bytes: Annotated[int | None, Field(ge=MIN_QUERY_BYTES, description="Most memory of one query.")] = None

    def given(self) -> dict[str, Any]:
        names = {"query_timeout_seconds": "timeout_s", "query_memory_bytes": "memory_bytes"}
        return {names[name]: getattr(self, name) for name in self.model_fields_set & names.keys()}


class LimitsRecord(Record):
    query_timeout_seconds: float
    query_memory_bytes: int


class WorkspaceSettingsRecord(Record):
    name: str
    query_timeout_seconds: Annotated[float | None, Field(description="null: the operator's limit.")]
    query_memory_bytes: Annotated[int | None, Field(description="null: the operator's limit.")]
    in_force: Annotated[LimitsRecord, Field(description="What holds for each query now.")]


def _record(limits: LimitService, settings: WorkspaceSettings) -> WorkspaceSettingsRecord:
    chosen = settings.limits
    timeout_s, memory_bytes = limits.bounded(chosen)
    return WorkspaceSettingsRecord(
        name=settings.name,
        query_timeout_seconds=chosen.timeout_s,
        query_memory_bytes=chosen.memory_bytes,
        in_force=LimitsRecord(query_timeout_seconds=timeout_s, query_memory_bytes=memory_bytes),
    )


@get("/api/settings/workspace", opt=described("Settings of the workspace", answers=WorkspaceSettingsRecord, tag="accounts"))
async def read_workspace_settings(caller: NamedDependency[Caller], limits: NamedDependency[LimitService]) -> Response[bytes]:
    return answer(_record(limits, await to_thread.run_sync(limits.settings, caller.workspace_id)))


@patch(
    "/api/settings/workspace",
    opt=described("Change settings of the workspace", body=WorkspaceChanges, answers=WorkspaceSettingsRecord, tag="accounts"),
)
async def change_workspace_settings(
    request: Request[Any, Any, Any], caller: NamedDependency[Caller], limits: NamedDependency[LimitService]
) -> Response[bytes]:
    """Its name, and limits of queries, at most the operator's. A field that is left out stays; null goes back to the operator's limit."""
    changes = await read_json(request, WorkspaceChanges)
    return answer(_record(limits, await to_thread.run_sync(limits.change, caller.workspace_id, changes.given(), changes.name)))


ROUTES = (read_workspace_settings, change_workspace_settings)
