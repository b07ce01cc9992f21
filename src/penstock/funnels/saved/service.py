"""Saved funnels: create, read, replace, delete."""

from typing import TypeVar

from pydantic import BaseModel
from sqlalchemy import Connection

from penstock.base.clock import Clock, iso
from penstock.base.errors import Conflict, Fault, Invalid, NotFound
from penstock.base.ids import FunnelId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.funnels.definitions.definition import FunnelIn, goals_in, resolve
from penstock.funnels.definitions.model import Definition
from penstock.funnels.definitions.records import DefinitionRecord, FunnelRecord, RevisionRecord, SavedDefinition
from penstock.funnels.definitions.regexes import checked_by
from penstock.funnels.definitions.revisions import Revision
from penstock.funnels.definitions.surroundings import Surroundings
from penstock.funnels.goals import store as goals_store
from penstock.funnels.saved import store
from penstock.http.bodies import bad_parameter, parse_model
from penstock.metadb.database import Database
from penstock.settings import Settings
from penstock.warehouse.client import Warehouse

M = TypeVar("M", bound=BaseModel)


class FunnelService:
    """Use cases of saved funnels. A funnel of another workspace is as unknown as one that never was: NotFound."""

    def __init__(self, database: Database, warehouse: Warehouse, settings: Settings, clock: Clock) -> None:
        self._database = database
        self._warehouse = warehouse
        self._settings = settings
        self._clock = clock

    def read(self, workspace_id: WorkspaceId, body: bytes, model: type[M]) -> M:
        """A body that is a funnel definition or holds one, checked against the workspace's goals and the engine's regexes.

        Malformed when it is not JSON; Invalid with every fault when it breaks rules.
        """
        with self._database.read() as db:
            goals = {name: goal.match for name, goal in goals_store.goals_by_name(db, workspace_id).items()}
        return parse_model(body, model, Surroundings(goals, checked_by(self._warehouse), self._settings))

    def resolved(self, workspace_id: WorkspaceId, definition: SavedDefinition) -> Definition:
        """The definition ready to be evaluated, with the goals as they are now. Conflict when it names one that has gone."""
        with self._database.read() as db:
            goals = goals_store.goals_by_name(db, workspace_id)
        if gone := sorted(goals_in(definition) - goals.keys()):
            raise Conflict(f"This definition uses the goal {gone[0]}, and there is none of that name any more.", code="goal_gone")
        return resolve(definition, goals)

    def validated(self, workspace_id: WorkspaceId, body: bytes) -> DefinitionRecord:
        """A definition as it would be saved. Errors as of `read`."""
        funnel = self.read(workspace_id, body, FunnelIn)
        return DefinitionRecord(**dict(funnel.saved()), name=funnel.name)

    def create(self, workspace_id: WorkspaceId, funnel: FunnelIn) -> FunnelRecord:
        now_ms = self._clock()
        funnel_id = FunnelId(new_id("fun", now_ms))
        definition = funnel.saved()
        with self._database.write() as db:
            store.add_funnel(db, workspace_id, funnel_id, funnel.name, definition, now_ms)
            store.add_revision(db, workspace_id, funnel_id, Revision(1, funnel.name, definition, now_ms))
            _note_goals(db, workspace_id, funnel_id, definition)
        return _record(funnel_id, funnel.name, definition, 1, iso(now_ms), iso(now_ms))

    def get(self, workspace_id: WorkspaceId, funnel_id: str) -> FunnelRecord:
        with self._database.read() as db:
            return _found(store.funnel(db, workspace_id, funnel_id))

    def page(self, workspace_id: WorkspaceId, page: Page, search: str = "") -> Listing[FunnelRecord]:
        """Newest first. search: only those whose name contains this text, whatever its case."""
        with self._database.read() as db:
            return store.funnels_page(db, workspace_id, page, search)

    def replace(self, workspace_id: WorkspaceId, funnel_id: str, funnel: FunnelIn) -> FunnelRecord:
        """Put a whole definition in place of the saved one.

        The revision tells readers of results that what is counted has changed. So a new name alone keeps it, and a replacement that changes
        nothing leaves the record as it is.
        """
        definition = funnel.saved()
        now_ms = self._clock()
        with self._database.write() as db:
            saved = _found(store.funnel(db, workspace_id, funnel_id, hold=True))
            changed = definition != saved.definition
            if not changed and funnel.name == saved.name:
                return saved
            revision = saved.revision + changed
            store.change_funnel(db, funnel_id, funnel.name, definition, revision, now_ms)
            if changed:
                store.add_revision(db, workspace_id, funnel_id, Revision(revision, funnel.name, definition, now_ms))
            _note_goals(db, workspace_id, funnel_id, definition)
        return _record(funnel_id, funnel.name, definition, revision, saved.created_at, iso(now_ms))

    def revisions(self, workspace_id: WorkspaceId, funnel_id: str, page: Page) -> Listing[RevisionRecord]:
        """Newest first, each with what changed from the one before it."""
        with self._database.read() as db:
            _found(store.funnel(db, workspace_id, funnel_id))
            revisions, total = store.revisions_page(db, workspace_id, funnel_id, page)
            oldest = store.revision(db, workspace_id, funnel_id, revisions[-1].number - 1) if revisions else None
        before = [*revisions, oldest][1:]
        return Listing([one.record(earlier) for one, earlier in zip(revisions, before, strict=True)], page, total)

    def at_revision(self, workspace_id: WorkspaceId, funnel_id: str, number: int | None) -> tuple[int, SavedDefinition]:
        """A revision's number and definition. number: None is the one that is saved now; one that never was is Malformed."""
        with self._database.read() as db:
            record = _found(store.funnel(db, workspace_id, funnel_id))
            if number in (None, record.revision):
                return record.revision, record.definition
            found = store.revision(db, workspace_id, funnel_id, number)
        if found is None:
            has = "revision 1 alone" if record.revision == 1 else f"revisions 1 to {record.revision}"
            raise bad_parameter(Fault("revision", "unknown_revision", f"The funnel has {has}."))
        return found.number, found.definition

    def delete(self, workspace_id: WorkspaceId, funnel_id: str) -> None:
        with self._database.write() as db:
            if not store.delete_funnel(db, workspace_id, funnel_id):
                raise _unknown()


def _note_goals(db: Connection, workspace_id: WorkspaceId, funnel_id: str, definition: SavedDefinition) -> None:
    """Invalid when a goal has gone since the definition was checked."""
    names = goals_in(definition)
    goals = goals_store.hold_goals(db, workspace_id, names)
    if gone := sorted(names - goals.keys()):
        raise Invalid([Fault("steps", "goal_not_found", f"There is no goal named {gone[0]} any more; create it again, or name another.")])
    store.note_goals(db, funnel_id, goals.values())


def _record(funnel_id: str, name: str, definition: SavedDefinition, revision: int, created_at: str, updated_at: str) -> FunnelRecord:
    return FunnelRecord(**definition.model_dump(), id=funnel_id, name=name, revision=revision, created_at=created_at, updated_at=updated_at)


def _found(record: FunnelRecord | None) -> FunnelRecord:
    if record is None:
        raise _unknown()
    return record


def _unknown() -> NotFound:
    return NotFound("There is no such funnel in this workspace.")
