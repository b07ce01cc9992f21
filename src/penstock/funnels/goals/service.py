"""Creates, reads, changes and deletes goals."""

from collections.abc import Iterable
from typing import TypeVar

from pydantic import BaseModel
from sqlalchemy import Connection

from penstock.base.clock import Clock, iso
from penstock.base.errors import Conflict, NotFound
from penstock.base.ids import GoalId, WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.funnels.definitions.regexes import PatternChecker
from penstock.funnels.definitions.schema import GoalRecord, ValidationContext
from penstock.funnels.goals import store
from penstock.funnels.goals.schema import GoalChange, GoalIn
from penstock.http.bodies import parse_model
from penstock.http.read_only import NO_READ_ONLY_FIELDS, ReadOnlyFields, check_revision
from penstock.metadb.database import Database
from penstock.metadb.named import unique_name

M = TypeVar("M", bound=BaseModel)


class GoalService:
    """Manages saved goals. Methods raise NotFound if the workspace has no such goal."""

    def __init__(self, database: Database, patterns: PatternChecker, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._patterns = patterns

    def read(self, _: WorkspaceId, body: bytes, model: type[M]) -> M:
        """Parse a body with the match of a goal.

        Raises Malformed if it is not JSON, and Invalid with all faults if it breaks rules.
        """
        return parse_model(body, model, ValidationContext({}, self._patterns.begin()))

    def create(self, workspace_id: WorkspaceId, goal: GoalIn) -> GoalRecord:
        now_ms = self._clock()
        goal_id = GoalId(new_id("goal", now_ms))
        match = goal.match.saved()
        with unique_name("goal", goal.name), self._database.write() as db:
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
        """Return a page of goals, newest first.

        search: text that the name must contain, ignoring case.
        """
        with self._database.read() as db:
            return store.goals_page(db, workspace_id, page, search)

    def uses(
        self, workspace_id: WorkspaceId, goals: Iterable[GoalRecord]
    ) -> dict[str, list[tuple[str, str]]]:
        """Return ID and name of the funnels that use these goals, by goal ID."""
        with self._database.read() as db:
            uses = store.goal_uses(db, workspace_id, [goal.id for goal in goals])
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
        """Change the name or the match of a goal.

        The next report of a funnel that uses the goal uses the new match, and the funnel keeps its
        revision. The goal's revision increases only with a new match.

        Raises Invalid if a read-only field differs from its stored value.
        """
        now_ms = self._clock()
        with unique_name("goal", change.name or ""), self._database.write() as db:
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

    def delete(self, workspace_id: WorkspaceId, goal_id: str, revision: int | None = None) -> None:
        """Delete a goal.

        revision: the only one to delete; None: any. Raises Conflict if the goal has another
        revision, or a funnel uses it.
        """
        with self._database.write() as db:
            saved = _existing(store.goal(db, workspace_id, goal_id, hold=True))
            check_revision(revision, saved.revision)
            _refuse_in_use(db, goal_id, "deleted")
            store.delete_goal(db, goal_id)


def _refuse_in_use(db: Connection, goal_id: str, action: str) -> None:
    if funnels := store.funnel_names(db, goal_id):
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
