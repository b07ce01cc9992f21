"""Creates, reads, replaces and deletes saved funnels."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from pydantic import MISSING
from pydantic_core import to_json
from sqlalchemy import Connection

from penstock.base.clock import Clock, iso
from penstock.base.errors import Conflict, Fault, Invalid
from penstock.base.ids import WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.funnels.definitions.ad_hoc import AdHocChanges
from penstock.funnels.definitions.builtins import COHORT_PREFIX
from penstock.funnels.definitions.cost import MatchCost, cost_fault, filter_units, row_costs
from penstock.funnels.definitions.definition import cohorts_named, goal_names, resolve
from penstock.funnels.definitions.model import Definition
from penstock.funnels.definitions.regexes import PatternChecker
from penstock.funnels.definitions.schema import (
    DefinitionRecord,
    FunnelRecord,
    GoalRecord,
    ReplacedFunnelRecord,
    RevisionRecord,
    SavedDefinition,
    ValidationContext,
)
from penstock.funnels.goals import store as goals_store
from penstock.funnels.goals.service import goals_by_name
from penstock.funnels.internal_traffic.model import InternalTraffic
from penstock.funnels.internal_traffic.service import InternalTrafficService
from penstock.funnels.saved import store
from penstock.funnels.saved.schema import FunnelIn, FunnelSort
from penstock.funnels.segments.schema import SavedSegmentRecord
from penstock.funnels.segments.service import SavedSegmentService
from penstock.http.bodies import bad_parameter
from penstock.http.read_only import ReadOnlyFields, check_revision
from penstock.metadb.database import Database
from penstock.metadb.named import add_named, change_named, delete_named
from penstock.metadb.tables import funnels
from penstock.metadb.workspaces import hold_workspace
from penstock.named_records.service import NamedRecords

MAX_FOLDERS = 500
"""Maximum number of folders that pages offer."""


class ChangedDefinition(NamedTuple):
    """A definition with the ad hoc changes of a query.

    segment: the segment that the query names, if any. internal_traffic: how the query treats
    internal traffic; None if the workspace has no filters for it.
    """

    definition: Definition
    segment: SavedSegmentRecord | None
    internal_traffic: InternalTraffic | None


class FunnelService(NamedRecords[FunnelRecord]):
    """Manages saved funnels. Methods raise NotFound if the workspace has no such funnel.

    Several funnels may have the same name.
    """

    table, model, noun, prefix = funnels, FunnelRecord, "funnel", "fun"

    def __init__(
        self,
        database: Database,
        patterns: PatternChecker,
        clock: Clock,
        segments: SavedSegmentService,
        internal_traffic: InternalTrafficService,
    ) -> None:
        super().__init__(database, clock)
        self._segments, self._internal_traffic = segments, internal_traffic
        self._patterns = patterns

    @classmethod
    def record_of(cls, row: Mapping[Any, Any]) -> FunnelRecord:
        head = {name: row[name] for name in ("id", "name", "folder", "revision")}
        times = {name: iso(row[name]) for name in ("created_at", "updated_at")}
        return FunnelRecord(**row["definition"], **head, **times)

    def _validation_context(self, workspace_id: WorkspaceId) -> ValidationContext:
        with self._database.read() as db:
            goals = {name: goal.match for name, goal in goals_by_name(db, workspace_id).items()}
        return ValidationContext(goals, self._patterns.begin(), names_cohorts=True)

    def resolve(self, workspace_id: WorkspaceId, definition: SavedDefinition) -> Definition:
        """Replace the goals of a definition by their current matches.

        Raises Conflict if a goal no longer exists, a filter is no longer valid, or the filters cost
        too much.
        """
        goals = self._goals(workspace_id, definition)
        if missing := sorted(goal_names(definition) - goals.keys()):
            raise Conflict(
                f"This definition uses the goal {missing[0]}, which no longer exists.",
                code="goal_gone",
            )
        return resolve(definition, goals, self._patterns.begin())

    def change(
        self,
        workspace_id: WorkspaceId,
        saved: SavedDefinition,
        definition: Definition,
        changes: AdHocChanges,
    ) -> ChangedDefinition:
        """Return a definition with the ad hoc changes of a query, without internal traffic unless
        the query includes it.

        saved: the definition as it was stored. definition: the same as `resolve` returned it.

        Raises Invalid for an unknown segment, Malformed if a change does not fit the funnel or
        names an unknown cohort, or if its filters and those of the definition cost too much, and
        Conflict if a filter of internal
        traffic is no longer valid.
        """
        segment = None
        if changes.segment is not None:
            segment = self._segments.for_request(workspace_id, changes.segment)
        of_segment = segment.filters if segment else []
        if changes.filters or of_segment:
            goals = self._goals(workspace_id, saved)
            costs = row_costs(saved.steps, {name: goal.match for name, goal in goals.items()})
            entries = sum(len(row.matches) for row in definition.entry_rows)
            costs.append(MatchCost("filters", filter_units(changes.filters or (), entries)))
            costs.append(MatchCost("segment", filter_units(of_segment, entries)))
            field = "filters" if changes.filters else "segment"
            if (too_costly := cost_fault(costs, field)) is not None:
                raise bad_parameter(too_costly)
        internal = self._internal_traffic.filters(workspace_id)
        treatment = InternalTraffic.INCLUDED if changes.internal else InternalTraffic.LEFT_OUT
        changed = changes.change(
            definition,
            self._patterns.begin(),
            of_segment=of_segment,
            internal_traffic=() if changes.internal else internal,
        )
        self._check_named_cohorts(workspace_id, definition, changed)
        return ChangedDefinition(changed, segment, treatment if internal else None)

    def _check_named_cohorts(
        self, workspace_id: WorkspaceId, definition: Definition, changed: Definition
    ) -> None:
        """Raise Malformed if only the changed definition names a cohort, which does not exist."""
        named = set(changed.read_cohorts) - set(definition.read_cohorts)
        if not named:
            return
        with self._database.read() as db:
            existing = store.existing_cohorts(db, workspace_id, named, hold=False)
        if missing := sorted(named - existing):
            is_broken_down = COHORT_PREFIX + missing[0] in changed.breakdown_properties
            field = "breakdown" if is_broken_down else "filters"
            raise bad_parameter(_cohort_not_found(field, missing[0]))

    def _goals(
        self, workspace_id: WorkspaceId, definition: SavedDefinition
    ) -> Mapping[str, GoalRecord]:
        """Return the workspace's goals by name; none if the definition uses none."""
        if not goal_names(definition):
            return {}
        with self._database.read() as db:
            return goals_by_name(db, workspace_id)

    def complete(self, workspace_id: WorkspaceId, funnel: FunnelIn) -> DefinitionRecord:
        """Return the definition that `create` would save, with all defaults.

        Raises Invalid if it names a saved cohort that does not exist.
        """
        definition = funnel.saved()
        with self._database.read() as db:
            _check_cohorts(db, workspace_id, definition, hold=False)
        return DefinitionRecord(**dict(definition), name=funnel.name)

    def create(
        self, workspace_id: WorkspaceId, funnel: FunnelIn, draft: str | None = None
    ) -> FunnelRecord:
        """Add a funnel. draft: a name of the request. If the same request with this name has added
        a funnel, return that.
        """
        now_ms, definition = self._clock(), funnel.saved()
        row: dict[str, Any] = {
            "id": new_id(self.prefix, now_ms),
            "name": funnel.name,
            "folder": None if funnel.folder is MISSING else funnel.folder,
            "definition": definition.model_dump(mode="json"),
            "revision": 1,
            "created_at": now_ms,
            "updated_at": now_ms,
        }
        if draft is not None:
            row["id"] = _id_of(workspace_id, draft, row)
        with self._database.write() as db:
            if draft is not None:
                hold_workspace(db, workspace_id)
                if (stored := self._find(db, workspace_id, row["id"])) is not None:
                    return self.record_of(stored)
            add_named(db, funnels, workspace_id, row)
            store.add_revision(db, workspace_id, row)
            _save_goal_uses(db, workspace_id, row["id"], definition)
            _check_cohorts(db, workspace_id, definition, hold=True)
        return self.record_of(row)

    def names(self, workspace_id: WorkspaceId) -> dict[str, str]:
        """Return the names of all funnels by their ID, in alphabetical order."""
        with self._database.read() as db:
            return store.names(db, workspace_id)

    def page(
        self,
        workspace_id: WorkspaceId,
        page: Page,
        search: str = "",
        sort: FunnelSort = FunnelSort.CREATED,
        folder: str | None = None,
        *,
        by_folder: bool = False,
    ) -> Listing[FunnelRecord]:
        """Return a page of funnels, by default the newest first.

        search: text that the name must contain, ignoring case. folder, by_folder: see
        `store.funnels_page`.
        """
        with self._database.read() as db:
            rows, total = store.funnels_page(
                db, workspace_id, page, search, sort, folder, by_folder=by_folder
            )
        return Listing([self.record_of(row._mapping) for row in rows], page, total)

    def folders(self, workspace_id: WorkspaceId) -> Mapping[str | None, int]:
        """Return the number of funnels in each folder. The key None stands for no folder."""
        with self._database.read() as db:
            return store.folders(db, workspace_id, MAX_FOLDERS)

    def move(self, workspace_id: WorkspaceId, funnel_id: str, folder: str | None) -> FunnelRecord:
        """Move a funnel to a folder, or out of its folder. Keeps its revision."""
        changed = {"folder": folder, "updated_at": self._clock()}
        with self._database.write() as db:
            saved = self._row(db, workspace_id, funnel_id, hold=True)
            if folder == saved["folder"]:
                return self.record_of(saved)
            change_named(db, funnels, funnel_id, changed)
        return self.record_of({**saved, **changed})

    def replace(
        self,
        workspace_id: WorkspaceId,
        funnel_id: str,
        funnel: FunnelIn,
        read_only: ReadOnlyFields,
    ) -> ReplacedFunnelRecord:
        """Replace the whole definition.

        A new revision shows people who read reports that the counts follow a new definition. So
        changing only names, of the funnel or its rows, keeps the revision, and sending the same
        definition changes nothing.

        Raises Invalid if a read-only field differs from its stored value, and Conflict for an
        earlier revision.
        """
        definition = funnel.saved()
        with self._database.write() as db:
            row = self._row(db, workspace_id, funnel_id, hold=True)
            saved = self.record_of(row)
            read_only.check(saved, computed=("replacedRevision",))
            replaced = None if "revision" in read_only.values else saved.revision
            is_changed = not definition.counts_like(saved.definition)
            folder = saved.folder if funnel.folder is MISSING else funnel.folder
            stored = saved.name, saved.folder, saved.definition
            if (funnel.name, folder, definition) == stored:
                return ReplacedFunnelRecord(**dict(saved), replaced_revision=replaced)
            changed = {
                "name": funnel.name,
                "folder": folder,
                "definition": definition.model_dump(mode="json"),
                "revision": saved.revision + is_changed,
                "updated_at": self._clock(),
            }
            change_named(db, funnels, funnel_id, changed)
            row = {**row, **changed}
            if is_changed:
                store.add_revision(db, workspace_id, row)
            _save_goal_uses(db, workspace_id, funnel_id, definition)
            _check_cohorts(db, workspace_id, definition, hold=True)
        return ReplacedFunnelRecord(**dict(self.record_of(row)), replaced_revision=replaced)

    def delete(
        self, workspace_id: WorkspaceId, funnel_id: str, revision: int | None = None
    ) -> None:
        """Delete a funnel with its revisions.

        revision: the only one to delete; None deletes any. Raises Conflict if the funnel has
        another revision.
        """
        with self._database.write() as db:
            check_revision(revision, self._row(db, workspace_id, funnel_id, hold=True)["revision"])
            delete_named(db, funnels, funnel_id)

    def revisions(
        self, workspace_id: WorkspaceId, funnel_id: str, page: Page
    ) -> Listing[RevisionRecord]:
        """Return revisions, newest first, each with its changes from the previous one."""
        with self._database.read() as db:
            self._row(db, workspace_id, funnel_id)
            revisions, total = store.revisions_page(db, workspace_id, funnel_id, page)
            oldest = (
                store.revision(db, workspace_id, funnel_id, revisions[-1].number - 1)
                if revisions
                else None
            )
        previous = [*revisions, oldest][1:]
        records = [
            revision.record(earlier) for revision, earlier in zip(revisions, previous, strict=True)
        ]
        return Listing(records, page, total)

    def definition_at(
        self, workspace_id: WorkspaceId, funnel_id: str, number: int | None
    ) -> tuple[int, SavedDefinition]:
        """Return the number and definition of a revision. number: None for the current revision.

        Raises Malformed if the funnel has no such revision.
        """
        with self._database.read() as db:
            funnel = self.record_of(self._row(db, workspace_id, funnel_id))
            if number in (None, funnel.revision):
                return funnel.revision, funnel.definition
            revision = store.revision(db, workspace_id, funnel_id, number)
        if revision is None:
            numbers = (
                "only revision 1" if funnel.revision == 1 else f"revisions 1 to {funnel.revision}"
            )
            raise bad_parameter(Fault("revision", "unknown_revision", f"The funnel has {numbers}."))
        return revision.number, revision.definition


def check_cohort_use(db: Connection, workspace_id: WorkspaceId, cohort_id: str) -> None:
    """Raise Conflict if a funnel names a saved cohort, which the caller has locked."""
    names = store.names_of_funnels_with(db, workspace_id, cohort_id)
    if names:
        others = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise Conflict(
            "The cohort cannot be deleted while funnels name it: "
            f"{', '.join(names[:5])}{others}. Change those funnels first.",
            code="cohort_in_use",
        )


def _check_cohorts(
    db: Connection, workspace_id: WorkspaceId, definition: SavedDefinition, *, hold: bool
) -> None:
    """Raise Invalid if a definition names a saved cohort that does not exist.

    hold: whether to lock the cohorts against deletion until the transaction ends.
    """
    named = cohorts_named(definition)
    existing = store.existing_cohorts(db, workspace_id, named.values(), hold=hold)
    faults = [
        _cohort_not_found(field, cohort_id)
        for field, cohort_id in named.items()
        if cohort_id not in existing
    ]
    if faults:
        raise Invalid(faults)


def _cohort_not_found(field: str, cohort_id: str) -> Fault:
    return Fault(
        field,
        "cohort_not_found",
        f"There is no cohort {cohort_id} in this workspace. It may have been deleted: take it out, "
        "or choose a cohort from GET /api/cohorts.",
    )


def _save_goal_uses(
    db: Connection, workspace_id: WorkspaceId, funnel_id: str, definition: SavedDefinition
) -> None:
    """Store which goals a funnel uses. Raises Invalid if one of them has been deleted."""
    names = goal_names(definition)
    goals = goals_store.hold_goals(db, workspace_id, names)
    if missing := sorted(names - goals.keys()):
        raise Invalid(
            [
                Fault(
                    "steps",
                    "goal_not_found",
                    f"The goal {missing[0]} no longer exists. Create it again, or use another.",
                )
            ]
        )
    store.save_goal_uses(db, funnel_id, goals.values())


def _id_of(workspace_id: WorkspaceId, draft: str, row: Mapping[str, Any]) -> str:
    """Return the ID of the funnel that a draft becomes. row: its name, folder and definition."""
    content = to_json(
        [workspace_id, draft, *(row[name] for name in ("name", "folder", "definition"))]
    )
    return f"{FunnelService.prefix}_{sha256(content).hexdigest()[:26]}"
