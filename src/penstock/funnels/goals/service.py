"""Use cases of goals."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from pydantic import BaseModel
from sqlalchemy import Connection

from penstock.base.clock import Clock, iso
from penstock.base.errors import Conflict, NotFound, StoreConflict
from penstock.base.ids import GoalId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.funnels.definitions.regexes import regex_checker
from penstock.funnels.definitions.schema import GoalRecord, ValidationContext
from penstock.funnels.goals import store
from penstock.funnels.goals.schema import GoalChange, GoalIn
from penstock.http.bodies import parse_model
from penstock.http.read_only import NO_READ_ONLY_FIELDS, ReadOnlyFields
from penstock.metadb.database import Database
from penstock.warehouse.client import Warehouse

M = TypeVar("M", bound=BaseModel)


class GoalService:
    """NotFound for a goal that does not exist or belongs to another workspace."""

    def __init__(self, database: Database, warehouse: Warehouse, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._check_regex = regex_checker(warehouse)

    def read(self, body: bytes, model: type[M]) -> M:
        """A body with the match of a goal.

        Malformed when it is not JSON; Invalid with every fault when it breaks rules.
        """
        return parse_model(body, model, ValidationContext({}, self._check_regex))

    def create(self, workspace_id: WorkspaceId, goal: GoalIn) -> GoalRecord:
        now_ms = self._clock()
        goal_id = GoalId(new_id("goal", now_ms))
        match = goal.match.saved()
        with _unique_name(goal.name), self._database.write() as db:
            store.add_goal(db, workspace_id, goal_id, goal.name, match, now_ms)
        return GoalRecord(
            id=goal_id,
            name=goal.name,
            match=match,
            revision=1,
            created_at=iso(now_ms),
            updated_at=iso(now_ms),
        )

    def get(self, workspace_id: WorkspaceId, goal_id: str) -> GoalRecord:
        with self._database.read() as db:
            return _existing(store.goal(db, workspace_id, goal_id))

    def page(self, workspace_id: WorkspaceId, page: Page, search: str = "") -> Listing[GoalRecord]:
        """Newest first. search: part of the name, in any letter case."""
        with self._database.read() as db:
            return store.goals_page(db, workspace_id, page, search)

    def uses(
        self, workspace_id: WorkspaceId, goals: Iterable[GoalRecord]
    ) -> dict[str, list[tuple[str, str]]]:
        """ID and name of the funnels that use each of these goals, by goal ID."""
        with self._database.read() as db:
            uses = store.uses_of(db, workspace_id, [goal.id for goal in goals])
        funnels: dict[str, list[tuple[str, str]]] = {}
        for goal_id, funnel_id, name in uses:
            funnels.setdefault(goal_id, []).append((funnel_id, name))
        return funnels

    def change(
        self,
        workspace_id: WorkspaceId,
        goal_id: str,
        change: GoalChange,
        read_only: ReadOnlyFields = NO_READ_ONLY_FIELDS,
    ) -> GoalRecord:
        """Change a name or a match. Invalid when a read-only field is not the stored one.

        Funnels that use the goal count by its new match from their next report on, and keep their
        revision. The goal's own revision rises with its match; a new name alone keeps it.
        """
        now_ms = self._clock()
        with _unique_name(change.name or ""), self._database.write() as db:
            saved = _existing(store.goal(db, workspace_id, goal_id, hold=True))
            read_only.check(saved)
            name = change.name or saved.name
            match = change.match.saved() if change.match else saved.match
            if (name, match) == (saved.name, saved.match):
                return saved
            if name != saved.name:
                _refuse_in_use(db, goal_id, "renamed")
            revision = saved.revision + (match != saved.match)
            store.change_goal(db, goal_id, name, match, revision, now_ms)
        return saved.model_copy(
            update={"name": name, "match": match, "revision": revision, "updated_at": iso(now_ms)}
        )

    def delete(self, workspace_id: WorkspaceId, goal_id: str) -> None:
        with self._database.write() as db:
            _existing(store.goal(db, workspace_id, goal_id, hold=True))
            _refuse_in_use(db, goal_id, "deleted")
            store.delete_goal(db, goal_id)


@contextmanager
def _unique_name(name: str) -> Iterator[None]:
    """Conflict for a second goal with the same name, which the database rejects."""
    try:
        yield
    except StoreConflict:
        raise Conflict(
            f"name: a goal named {name} already exists; choose another name.", code="name_taken"
        ) from None


def _refuse_in_use(db: Connection, goal_id: str, action: str) -> None:
    if funnels := store.funnels_using(db, goal_id):
        others = f" and {len(funnels) - 5} more" if len(funnels) > 5 else ""
        raise Conflict(
            f"The goal cannot be {action} while funnels use it: {', '.join(funnels[:5])}{others}. "
            "Change those funnels first.",
            code="goal_in_use",
        )


def _existing(goal: GoalRecord | None) -> GoalRecord:
    if goal is None:
        raise NotFound("There is no such goal in this workspace.")
    return goal
