"""Saves, reads and deletes cohorts of visitors."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pydantic import ValidationError
from sqlalchemy import Connection

from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.model import Caller
from penstock.accounts.websites.service import WebsiteService
from penstock.base.chunks import chunks
from penstock.base.clock import Clock
from penstock.base.errors import (
    Conflict,
    Fault,
    Invalid,
    Malformed,
    NotFound,
    StoreUnavailable,
    Unauthorized,
)
from penstock.base.ids import ScopeId, VisitorId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.funnels.definitions.builtins import COHORT
from penstock.funnels.pipeline import CohortMembers, FunnelQueryRunner, RowBlocks
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.saved.service import check_cohort_use
from penstock.funnels.saved_cohorts import store
from penstock.funnels.saved_cohorts.model import (
    MAX_VISITORS,
    CohortKind,
    ListedVisitor,
    Member,
)
from penstock.funnels.saved_cohorts.schema import (
    CohortChange,
    CohortIn,
    CohortVisitorRecord,
    SavedCohortRecord,
)
from penstock.funnels.statements.unit_visitors import visitor_keys, visitors_page
from penstock.funnels.statements.units import UnitConditions
from penstock.funnels.units.schema import UnitListQuery
from penstock.funnels.units.service import unit_conditions
from penstock.http.schema import faults_of
from penstock.metadb.database import Database
from penstock.metadb.named import change_named, delete_named, unique_name
from penstock.metadb.person import Person, StoredRecord
from penstock.metadb.tables import saved_cohorts
from penstock.named_records.service import NamedRecords
from penstock.warehouse.client import Warehouse
from penstock.warehouse.queries import load

_MEMBERS_PER_WRITE = 2_000
"""Visitors per transaction. Other writes wait for each transaction."""
_ABANDONED_MS = 60 * 60 * 1000


class _Units(NamedTuple):
    """A list of units whose query is prepared."""

    context: QueryContext
    conditions: UnitConditions


class SavedCohortService(NamedRecords[SavedCohortRecord]):
    """Manages saved cohorts. Methods block: call them from a worker thread.

    They raise NotFound if the workspace has no such cohort. Methods that evaluate a list of units
    raise the same errors as `FunnelQueryRunner.prepare`, and Malformed if a parameter does not fit
    the funnel.
    """

    table, model, noun, prefix = saved_cohorts, SavedCohortRecord, "cohort", "coh"
    maximum = 100
    shown = (saved_cohorts.c.is_complete,)

    def __init__(
        self,
        database: Database,
        runner: FunnelQueryRunner,
        warehouse: Warehouse,
        websites: WebsiteService,
        clock: Clock,
    ) -> None:
        super().__init__(database, clock)
        self._runner, self._warehouse, self._websites = runner, warehouse, websites

    def create(self, actor: Caller, cohort: CohortIn) -> SavedCohortRecord:
        """Save a cohort.

        Raises Conflict if the name is taken or the workspace has too many cohorts, Invalid for
        parameters that a list of units does not have, Malformed if a list has too many visitors,
        and Unauthorized if another workspace's website has named visitors.
        """
        units = self._units(actor.workspace_id, cohort.funnel_id, _query(cohort))
        is_rule = cohort.kind is CohortKind.RULE
        if is_rule and units.context.definition.read_cohorts:
            message = "This funnel names a cohort, on which a rule cannot depend. Save a list."
            raise Invalid([Fault("funnelId", "cohort_of_cohort", message)])
        if cohort.visitors is not None:
            members = list(self._named_members(actor.workspace_id, cohort.visitors))
        else:
            members = [] if is_rule else self._current_members(units)
        cohort_id = self._begin(actor.workspace_id, cohort, is_complete=is_rule)
        try:
            for share in chunks(members, _MEMBERS_PER_WRITE):
                with self._database.write() as db:
                    store.add_members(db, cohort_id, share)
            with self._database.write() as db:
                if not is_rule:
                    store.mark_complete(db, cohort_id)
                self._audit(db, actor, Action.COHORT_CREATED, cohort_id, cohort.name)
        except BaseException:
            with suppress(StoreUnavailable):
                self._remove(cohort_id)
            raise
        return self.get(actor.workspace_id, cohort_id)

    def _begin(self, workspace_id: WorkspaceId, cohort: CohortIn, *, is_complete: bool) -> str:
        """Add a cohort without its visitors. Returns its ID."""
        with self._database.read() as db:
            abandoned = store.abandoned(db, workspace_id, self._clock() - _ABANDONED_MS)
        for unfinished_id in abandoned:
            self._remove(unfinished_id)
        content = cohort.model_dump(include={"name", "kind", "funnel_id", "parameters"})
        cohort_id: str = self._insert(workspace_id, **content, is_complete=is_complete)["id"]
        return cohort_id

    def rename(self, actor: Caller, cohort_id: str, change: CohortChange) -> SavedCohortRecord:
        """Rename a cohort. Raises Conflict if the name is taken."""
        changed = {"name": change.name, "updated_at": self._clock()}
        with unique_name(self.noun, change.name), self._database.write() as db:
            saved = self._row(db, actor.workspace_id, cohort_id, hold=True)
            if change.name == saved["name"]:
                return self.record_of(saved)
            change_named(db, self.table, cohort_id, changed)
            self._audit(db, actor, Action.COHORT_CHANGED, cohort_id, change.name)
        return self.record_of({**saved, **changed})

    def delete(self, actor: Caller, cohort_id: str) -> None:
        """Delete a cohort. Raises Conflict if a funnel names it."""
        with self._database.write() as db:
            saved = self._row(db, actor.workspace_id, cohort_id, hold=True)
            check_cohort_use(db, actor.workspace_id, cohort_id)
            # Nothing reads an incomplete cohort.
            change_named(db, self.table, cohort_id, {"is_complete": False})
            self._audit(db, actor, Action.COHORT_DELETED, cohort_id, saved["name"])
        self._remove(cohort_id)

    def _audit(
        self, db: Connection, actor: Caller, action: Action, cohort_id: str, name: str
    ) -> None:
        audit.record(db, actor, action, f"{cohort_id} {name}", self._clock())

    def _remove(self, cohort_id: str) -> None:
        """Delete an incomplete cohort in several transactions."""
        is_empty = False
        while not is_empty:
            with self._database.write() as db:
                is_empty = store.remove_members(db, cohort_id, _MEMBERS_PER_WRITE) == 0
                if is_empty:
                    delete_named(db, self.table, cohort_id)

    def members(self, workspace_id: WorkspaceId, cohort_id: str) -> CohortMembers:
        """Return a cohort's visitors, for a filter."""
        with self._database.read() as db:
            cohort = self.record_of(self._row(db, workspace_id, cohort_id))
            if cohort.kind is CohortKind.LIST:
                return CohortMembers(store.member_keys(db, cohort_id))
        units = self._units_of_rule(workspace_id, cohort)
        keys: list[int] = []

        def read(blocks: RowBlocks) -> None:
            keys.clear()
            keys.extend(row["visitor"] for block in blocks for row in block)

        self._runner.stream(
            units.context,
            lambda profile: visitor_keys(
                units.context.counted(profile), units.conditions, MAX_VISITORS + 1
            ),
            read,
        )
        if len(keys) > MAX_VISITORS:
            raise _too_large(f"The cohort {cohort.name} has")
        return CohortMembers(keys, units.context.rules)

    def visitors(
        self, workspace_id: WorkspaceId, cohort_id: str, page: Page
    ) -> Listing[CohortVisitorRecord]:
        """Return a page of a cohort's visitors."""
        with self._database.read() as db:
            cohort = self.record_of(self._row(db, workspace_id, cohort_id))
            if cohort.kind is CohortKind.LIST:
                listed = store.members_page(db, cohort_id, page)
                return Listing(self._records(workspace_id, listed.data), page, listed.total)
        units = self._units_of_rule(workspace_id, cohort)
        result = self._runner.fetch(
            units.context,
            lambda profile: visitors_page(units.context.counted(profile), units.conditions, page),
        )
        total = result.rows[0]["total"] if result.rows else 0
        if not result.rows and page.number > 1:
            total = self.visitors(workspace_id, cohort_id, Page(1, 1)).total
        return Listing(self._records(workspace_id, self._listed(result.rows)), page, total)

    def all_visitors(
        self, workspace_id: WorkspaceId, cohort_id: str
    ) -> tuple[SavedCohortRecord, Sequence[CohortVisitorRecord]]:
        """Return a cohort with all of its visitors."""
        with self._database.read() as db:
            cohort = self.record_of(self._row(db, workspace_id, cohort_id))
            if cohort.kind is CohortKind.LIST:
                return cohort, self._records(workspace_id, store.members(db, cohort_id))
        rows = self._all_rows(self._units_of_rule(workspace_id, cohort))
        return cohort, self._records(workspace_id, self._listed(rows))

    def names(self, workspace_id: WorkspaceId, cohort_ids: Sequence[str]) -> dict[str, str]:
        """Return the names of those cohorts that exist, by their ID."""
        with self._database.read() as db:
            rows = [self._find(db, workspace_id, cohort_id) for cohort_id in cohort_ids]
        return {row["id"]: row["name"] for row in rows if row is not None}

    def _units(self, workspace_id: WorkspaceId, funnel_id: str, query: UnitListQuery) -> _Units:
        context = self._runner.prepare_saved(workspace_id, funnel_id, query)
        return _Units(context, unit_conditions(self._runner, context, query))

    def _units_of_rule(self, workspace_id: WorkspaceId, cohort: SavedCohortRecord) -> _Units:
        """Prepare the list of units of a rule. Raises Malformed if that is no longer possible."""
        try:
            query = UnitListQuery.model_validate(cohort.parameters)
            return self._units(workspace_id, cohort.funnel_id, query)
        except NotFound:
            reason = "its funnel was deleted"
        except Unauthorized:
            reason = "its website was deleted"
        except (Conflict, Invalid, Malformed) as error:
            reason = error.detail.removesuffix(".")
        except ValidationError as error:
            reason = faults_of(error, model=UnitListQuery)[0].message
        raise Malformed(
            f"The cohort {cohort.name} can no longer be evaluated: {reason}. Delete it, or leave "
            "it out of the filters.",
            code="cohort_not_usable",
        )

    def _current_members(self, units: _Units) -> list[Member]:
        return [
            Member(row["scope_id"], row["visitor_id"], row["visitor"])
            for row in self._all_rows(units)
        ]

    def _named_members(
        self, workspace_id: WorkspaceId, named: Mapping[str, Sequence[str]]
    ) -> Iterator[Member]:
        """Yield visitors by their IDs. named: visitor IDs by website ID."""
        ids_by_scope: dict[ScopeId, set[str]] = {}
        for website_id, visitor_ids in named.items():
            scope_id = self._websites.owned_website(workspace_id, website_id).scope_id
            ids_by_scope.setdefault(scope_id, set()).update(visitor_ids)
        for scope_id, ids in ids_by_scope.items():
            for share in chunks(sorted(ids), _MEMBERS_PER_WRITE):
                rows = self._warehouse.fetch_rows(
                    load("penstock.funnels.saved_cohorts", "keys_of_visitors"),
                    {"scope": scope_id, "visitors": list(share)},
                )
                for visitor_id, key in rows:
                    yield Member(scope_id, visitor_id, key)

    def _all_rows(self, units: _Units) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []

        def read(blocks: RowBlocks) -> None:
            rows.clear()
            for block in blocks:
                if block and block[0]["total"] > MAX_VISITORS:
                    raise _too_large("The list has")
                rows.extend(block)

        everyone = Page(1, MAX_VISITORS)
        self._runner.stream(
            units.context,
            lambda profile: visitors_page(
                units.context.counted(profile), units.conditions, everyone
            ),
            read,
        )
        return rows

    def _listed(self, rows: Sequence[Mapping[str, Any]]) -> list[ListedVisitor]:
        named = [(row["scope_id"], row["visitor_id"]) for row in rows]
        with self._database.read() as db:
            return list(store.users_of(db, named))

    def _records(
        self, workspace_id: WorkspaceId, listed: Sequence[ListedVisitor]
    ) -> list[CohortVisitorRecord]:
        websites = self._websites.websites(workspace_id)
        by_scope = {website.scope_id: website.id for website in reversed(websites)}
        return [
            CohortVisitorRecord(
                visitor_id=visitor.visitor_id,
                user_id=visitor.user_id,
                website_id=by_scope.get(ScopeId(visitor.scope_id)),
            )
            for visitor in listed
        ]


def forget_members(
    db: Connection, scope_id: ScopeId, visitor_ids: Sequence[VisitorId]
) -> dict[str, int]:
    """Remove visitors from all lists, in the transaction that deletes them.

    Returns the number of removed entries.
    """
    return {"cohortVisitors": store.forget_members(db, scope_id, visitor_ids)}


def visitor_cohorts(db: Connection, person: Person) -> Iterator[StoredRecord]:
    """Return the lists that a person is in."""
    for cohort_id, name in store.cohorts_of(db, person.scope_id, person.visitor_ids):
        yield "cohort", {"cohortId": cohort_id, "name": name}


def _query(cohort: CohortIn) -> UnitListQuery:
    """Parse the parameters of a new cohort. Raises Invalid if they are not those of a list."""
    try:
        query = UnitListQuery.model_validate(cohort.parameters)
    except ValidationError as error:
        raise Invalid(faults_of(error, "parameters", UnitListQuery)) from None
    names_cohort = any(item.property == COHORT for item in query.filters or ())
    if cohort.kind is CohortKind.RULE and names_cohort:
        message = f"A rule cannot depend on another cohort. Leave {COHORT} out, or save a list."
        raise Invalid([Fault("parameters.filters", "cohort_of_cohort", message)])
    if cohort.kind is CohortKind.RULE and query.differs:
        message = "A rule cannot depend on the count of another tool. Leave it out, or save a list."
        raise Invalid([Fault("parameters.differs", "not_for_type", message)])
    return query


def _too_large(subject: str) -> Malformed:
    """Return the error for too many visitors. subject: its first words, such as `The list has`."""
    return Malformed(
        f"{subject} more than {MAX_VISITORS:,} visitors, the most that a cohort can have. Choose a "
        "shorter period, one step or outcome, or a filter.",
        code="cohort_too_large",
    )
