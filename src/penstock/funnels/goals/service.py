"""Use cases of goals."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from pydantic import BaseModel
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from penstock.base.clock import Clock, iso
from penstock.base.errors import Conflict, NotFound
from penstock.base.ids import GoalId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.funnels.definitions.records import GoalRecord
from penstock.funnels.definitions.regexes import checked_by
from penstock.funnels.definitions.surroundings import Surroundings
from penstock.funnels.goals import store
from penstock.funnels.goals.schema import GoalChange, GoalIn
from penstock.http.bodies import parse_model
from penstock.metadb.database import Database
from penstock.settings import Settings
from penstock.warehouse.client import Warehouse

M = TypeVar("M", bound=BaseModel)


class GoalService:
    """Create, read, change and delete goals. One of another workspace is as unknown as one that never was: NotFound."""

    def __init__(self, database: Database, warehouse: Warehouse, settings: Settings, clock: Clock) -> None:
        self._database = database
        self._warehouse = warehouse
        self._settings = settings
        self._clock = clock

    def read(self, body: bytes, model: type[M]) -> M:
        """A body that holds a goal's match. Malformed when it is not JSON; Invalid with every fault when it breaks rules."""
        return parse_model(body, model, Surroundings({}, checked_by(self._warehouse), self._settings))

    def create(self, workspace_id: WorkspaceId, goal: GoalIn) -> GoalRecord:
        now_ms = self._clock()
        goal_id = GoalId(new_id("goal", now_ms))
        match = goal.match.saved()
        with _unique_name(goal.name), self._database.write() as db:
            store.add_goal(db, workspace_id, goal_id, goal.name, match, now_ms)
        return GoalRecord(id=goal_id, name=goal.name, match=match, revision=1, created_at=iso(now_ms), updated_at=iso(now_ms))

    def get(self, workspace_id: WorkspaceId, goal_id: str) -> GoalRecord:
        with self._database.read() as db:
            return _found(store.goal(db, workspace_id, goal_id))

    def page(self, workspace_id: WorkspaceId, page: Page, search: str = "") -> Listing[GoalRecord]:
        """Newest first. search: only those whose name contains this text, whatever its case."""
        with self._database.read() as db:
            return store.goals_page(db, workspace_id, page, search)

    def uses(self, workspace_id: WorkspaceId, goals: Iterable[GoalRecord]) -> dict[str, list[tuple[str, str]]]:
        """ID and name of the funnels that use each of these goals, by the goal's ID; all of the workspace."""
        with self._database.read() as db:
            found = store.uses_of(db, workspace_id, [goal.id for goal in goals])
        uses: dict[str, list[tuple[str, str]]] = {}
        for goal_id, funnel_id, name in found:
            uses.setdefault(goal_id, []).append((funnel_id, name))
        return uses

    def change(self, workspace_id: WorkspaceId, goal_id: str, change: GoalChange) -> GoalRecord:
        """Funnels that use the goal count by its new match from their next report on; their revision stays, for they did not change.

        The goal's own revision rises with its match and tells readers of reports; a new name alone keeps it.
        """
        now_ms = self._clock()
        with _unique_name(change.name or ""), self._database.write() as db:
            saved = _found(store.goal(db, workspace_id, goal_id, hold=True))
            name = change.name or saved.name
            match = change.match.saved() if change.match else saved.match
            if (name, match) == (saved.name, saved.match):
                return saved
            if name != saved.name:
                _refuse_in_use(db, goal_id, "renamed")
            revision = saved.revision + (match != saved.match)
            store.change_goal(db, goal_id, name, match, revision, now_ms)
        return saved.model_copy(update={"name": name, "match": match, "revision": revision, "updated_at": iso(now_ms)})

    def delete(self, workspace_id: WorkspaceId, goal_id: str) -> None:
        with self._database.write() as db:
            _found(store.goal(db, workspace_id, goal_id, hold=True))
            _refuse_in_use(db, goal_id, "deleted")
            store.delete_goal(db, goal_id)


@contextmanager
def _unique_name(name: str) -> Iterator[None]:
    """Tells a second goal of the same name, which the database refuses, as a Conflict."""
    try:
        yield
    except IntegrityError:
        raise Conflict(f"name: there is already a goal named {name}; choose another name.", code="name_taken") from None


def _refuse_in_use(db: Connection, goal_id: str, done: str) -> None:
    if users := store.funnels_using(db, goal_id):
        named = ", ".join(users[:5]) + (f" and {len(users) - 5} more" if len(users) > 5 else "")
        raise Conflict(f"The goal cannot be {done} while funnels use it: {named}. Change those funnels first.", code="goal_in_use")


def _found(goal: GoalRecord | None) -> GoalRecord:
    if goal is None:
        raise NotFound("There is no such goal in this workspace.")
    return goal
