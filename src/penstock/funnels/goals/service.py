"""Creates, reads, changes and deletes goals."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from pydantic import BaseModel
from sqlalchemy import Connection

from penstock.base.clock import Clock
from penstock.base.errors import Conflict
from penstock.base.ids import WorkspaceId
from penstock.funnels.definitions.regexes import PatternChecker
from penstock.funnels.definitions.schema import GoalRecord, ValidationContext
from penstock.funnels.goals import store
from penstock.funnels.goals.schema import GoalChange, GoalIn
from penstock.http.bodies import parse_model
from penstock.http.read_only import NO_READ_ONLY_FIELDS, ReadOnlyFields
from penstock.metadb.database import Database
from penstock.metadb.tables import goals
from penstock.named_records.service import RevisedRecords

M = TypeVar("M", bound=BaseModel)


class GoalService(RevisedRecords[GoalRecord]):
    """Manages saved goals. Methods raise NotFound if the workspace has no such goal."""

    table, model, noun, prefix = goals, GoalRecord, "goal", "goal"

    def __init__(self, database: Database, patterns: PatternChecker, clock: Clock) -> None:
        super().__init__(database, clock)
        self._patterns = patterns

    def read(self, _: WorkspaceId, body: bytes, model: type[M]) -> M:
        """Parse a body with the match of a goal.

        Raises Malformed if it is not JSON, and Invalid with all faults if it breaks rules.
        """
        return parse_model(body, model, ValidationContext({}, self._patterns.begin()))

    def create(self, workspace_id: WorkspaceId, goal: GoalIn) -> GoalRecord:
        return self._add(workspace_id, goal.name, match=goal.match.saved())

    def change(
        self,
        workspace_id: WorkspaceId,
        goal_id: str,
        change: GoalChange,
        read_only: ReadOnlyFields = NO_READ_ONLY_FIELDS,
    ) -> GoalRecord:
        """Change a goal.

        The next report of a funnel that uses the goal uses the new match, and the funnel keeps its
        revision. Raises Conflict for another name if a funnel uses the goal.
        """
        match = change.match.saved() if change.match else None
        return self._change(workspace_id, goal_id, change.name, read_only, match=match)

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

    def _check_use(self, db: Connection, record_id: str, action: str) -> None:
        if funnels := store.funnel_names(db, record_id):
            others = f" and {len(funnels) - 5} more" if len(funnels) > 5 else ""
            names = ", ".join(funnels[:5]) + others
            raise Conflict(
                f"The goal cannot be {action} while funnels use it: {names}. Change those funnels "
                "first.",
                code="goal_in_use",
            )


def goals_by_name(db: Connection, workspace_id: WorkspaceId) -> Mapping[str, GoalRecord]:
    """Return all goals of the workspace, by name."""
    goals = map(GoalService.record_of, store.goal_rows(db, workspace_id))
    return {goal.name: goal for goal in goals}
