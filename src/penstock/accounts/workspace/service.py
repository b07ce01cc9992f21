"""Use cases for workspace settings, such as query limits within the operator's."""

from pydantic.alias_generators import to_camel

from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.model import Caller
from penstock.accounts.workspace import store
from penstock.accounts.workspace.model import SharedContents, WorkspaceSettings
from penstock.accounts.workspace.schema import LimitsRecord, WorkspaceChanges
from penstock.base.clock import Clock
from penstock.base.errors import Fault, Invalid
from penstock.base.ids import WorkspaceId
from penstock.metadb.database import Database
from penstock.metadb.record_cache import RecordCache
from penstock.settings import Settings

_CACHE_TTL_S = 2.0


class WorkspaceService:
    """Settings of a workspace. Methods block: call them from a worker thread."""

    def __init__(self, database: Database, settings: Settings, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._max_timeout_s = settings.query_timeout_s
        self._max_bytes = settings.query_memory_bytes
        self._cache: RecordCache[WorkspaceId, WorkspaceSettings] = RecordCache(
            database, "workspaces", _CACHE_TTL_S
        )

    def settings(self, workspace_id: WorkspaceId) -> WorkspaceSettings:
        with self._database.read() as db:
            return store.workspace_settings(db, workspace_id)

    def change(self, actor: Caller, changes: WorkspaceChanges) -> WorkspaceSettings:
        """Change the settings that were sent. Raises `Invalid` if a limit is above the
        operator's.
        """
        faults = []
        if (changes.query_timeout_seconds or 0) > self._max_timeout_s:
            limit = f"{self._max_timeout_s:g}"
            faults.append(_above_limit("queryTimeoutSeconds", limit, "PENSTOCK_QUERY_TIMEOUT_S"))
        if (changes.query_memory_bytes or 0) > self._max_bytes:
            limit = f"{self._max_bytes:,}"
            faults.append(_above_limit("queryMemoryBytes", limit, "PENSTOCK_QUERY_MEMORY_BYTES"))
        if faults:
            raise Invalid(faults)
        workspace_id, values = actor.workspace_id, changes.model_dump(exclude_unset=True)
        if changes.shared_properties is not None:
            values["shared_properties"] = tuple(dict.fromkeys(changes.shared_properties))
        with self._database.write() as db:
            before = store.workspace_settings(db, workspace_id, lock=True)
            after = before._replace(**values)
            changed = [
                to_camel(name)
                for name in before._fields
                if getattr(before, name) != getattr(after, name)
            ]
            if not changed:
                return before
            store.update_workspace(db, workspace_id, after)
            target = f"{workspace_id} {after.name}: {', '.join(changed)}"
            if _contents_of(before) != (contents := _contents_of(after)):
                names = ", ".join(contents.properties) or "no properties"
                target += f"; shared from now on: {contents.level}, values of {names}"
            audit.record(db, actor, Action.WORKSPACE_CHANGED, target, self._clock())
            self._cache.announce(db)
        self._cache.forget(workspace_id)
        return after

    def person_trait(self, workspace_id: WorkspaceId) -> str | None:
        """Return the trait that names people; None for their user ID. Blocks on a cache miss."""
        return self._cached(workspace_id).person_trait

    def shared_contents(self, workspace_id: WorkspaceId) -> SharedContents:
        """Return what may leave the dashboard. Blocks on a cache miss."""
        return _contents_of(self._cached(workspace_id))

    def in_force(self, own: WorkspaceSettings) -> LimitsRecord:
        """Return the workspace's own limits, capped at the operator's."""
        timeout_s = own.query_timeout_seconds or self._max_timeout_s
        memory_bytes = own.query_memory_bytes or self._max_bytes
        return LimitsRecord(
            query_timeout_seconds=min(timeout_s, self._max_timeout_s),
            query_memory_bytes=min(memory_bytes, self._max_bytes),
        )

    def engine_limits(self, workspace_id: WorkspaceId) -> dict[str, float]:
        """Return the engine settings that limit each query now. Blocks on a cache miss."""
        limits = self.in_force(self._cached(workspace_id))
        return {
            "max_execution_time": limits.query_timeout_seconds,
            "max_memory_usage": limits.query_memory_bytes,
        }

    def _cached(self, workspace_id: WorkspaceId) -> WorkspaceSettings:
        own = self._cache.load(workspace_id, lambda: self.settings(workspace_id))
        assert own is not None  # settings never returns None
        return own


def _contents_of(settings: WorkspaceSettings) -> SharedContents:
    return SharedContents(settings.shared_contents, settings.shared_properties)


def _above_limit(field: str, limit: str, setting: str) -> Fault:
    return Fault(
        field, "less_than_equal", f"Must be at most {limit}, the operator's limit ({setting})."
    )
