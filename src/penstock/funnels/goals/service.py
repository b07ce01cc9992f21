"""Creates, reads, changes and deletes goals."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection

from penstock.base.errors import Conflict
from penstock.base.ids import WorkspaceId
from penstock.funnels.definitions.schema import GoalRecord
from penstock.funnels.goals import store
from penstock.funnels.goals.schema import GoalChange, GoalIn
from penstock.metadb.tables import goals
from penstock.named_records.service import RevisedRecords


class GoalService(RevisedRecords[GoalRecord]):
    """Manages saved goals. Methods raise NotFound if the workspace has no such goal."""

    table, model, noun, prefix = goals, GoalRecord, "goal", "goal"
    new, changes = GoalIn, GoalChange
    path, tag, validated_by = "/api/goals", "goals", "patterns"
    on_create = "A goal is a named match for use in funnels. Names are unique in the workspace."
    on_change = """Fields that you leave out keep their values. A goal in use cannot be renamed.

    Reports use the new match immediately. You can send read-only fields (`id`, `revision`, ...)
    back with their stored values."""
    on_delete = "A goal that a funnel uses cannot be deleted (409)."

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

    def _columns(self, body: GoalIn | GoalChange) -> dict[str, Any]:
        return {} if body.match is None else {"match": body.match.saved().model_dump()}


def goals_by_name(db: Connection, workspace_id: WorkspaceId) -> Mapping[str, GoalRecord]:
    """Return all goals of the workspace, by name."""
    goals = map(GoalService.record_of, store.goal_rows(db, workspace_id))
    return {goal.name: goal for goal in goals}
