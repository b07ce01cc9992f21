"""Reads and replaces the filters of internal traffic."""

from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.model import Caller
from penstock.base.clock import Clock, iso
from penstock.base.errors import Conflict, Fault
from penstock.base.ids import WorkspaceId
from penstock.funnels.definitions.matches import load_filters
from penstock.funnels.definitions.model import Filter
from penstock.funnels.definitions.regexes import PatternChecker
from penstock.funnels.definitions.schema import saved_filters
from penstock.funnels.internal_traffic import store
from penstock.funnels.internal_traffic.schema import InternalTrafficIn, InternalTrafficRecord
from penstock.http.read_only import ReadOnlyFields
from penstock.metadb.database import Database
from penstock.metadb.record_cache import RecordCache
from penstock.metadb.workspaces import hold_workspace

_TOPIC, _CACHE_TTL_S = "internal_traffic", 2.0


class InternalTrafficService:
    """Filters whose entries reports leave out. Methods block: call them from a worker thread."""

    def __init__(self, database: Database, patterns: PatternChecker, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._patterns = patterns
        self._filters: RecordCache[WorkspaceId, tuple[Filter, ...]] = RecordCache(
            database, _TOPIC, _CACHE_TTL_S
        )

    def get(self, workspace_id: WorkspaceId) -> InternalTrafficRecord:
        with self._database.read() as db:
            return store.read(db, workspace_id)

    def filters(self, workspace_id: WorkspaceId) -> tuple[Filter, ...]:
        """Return the filters for a query. An entry event that passes any of them is left out.

        Raises Conflict if a stored filter is no longer valid.
        """
        return self._filters.load(workspace_id, lambda: self._load(workspace_id)) or ()

    def replace(
        self, actor: Caller, sent: InternalTrafficIn, read_only: ReadOnlyFields
    ) -> InternalTrafficRecord:
        """Replace all filters.

        Raises Invalid if a read-only field differs from its stored value.
        """
        now_ms, workspace_id = self._clock(), actor.workspace_id
        filters = saved_filters(sent.filters)
        with self._database.write() as db:
            hold_workspace(db, workspace_id)
            before = store.read(db, workspace_id)
            read_only.check(before)
            if filters == before.filters:
                return before
            revision = before.revision + 1
            store.replace(db, workspace_id, filters, revision, now_ms)
            properties = ", ".join(dict.fromkeys(item.property for item in filters)) or "none"
            audit.record(
                db,
                actor,
                Action.INTERNAL_TRAFFIC_CHANGED,
                f"{workspace_id} filters on: {properties}",
                now_ms,
            )
            self._filters.announce(db)
        self._filters.forget(workspace_id)
        return InternalTrafficRecord(filters=filters, revision=revision, updated_at=iso(now_ms))

    def _load(self, workspace_id: WorkspaceId) -> tuple[Filter, ...]:
        faults: list[Fault] = []
        stored = self.get(workspace_id).filters
        filters = tuple(load_filters(stored, self._patterns.begin(), faults))
        if faults:
            raise Conflict(
                "Penstock cannot read the filters of internal traffic. Correct them and save them "
                f"again. {faults[0].field}: {faults[0].message}",
                code="definition_not_readable",
                faults=faults,
            )
        return filters
