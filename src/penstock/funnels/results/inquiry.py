"""A question about a funnel, ready for the engine."""

from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.base.clock import iso, iso_or_none
from penstock.base.ids import WorkspaceId
from penstock.funnels.definitions.model import Definition
from penstock.funnels.results.schema import ServedFrom
from penstock.funnels.statements.query import Facts, Question


@dataclass(slots=True)
class Service:
    """How an answer came about, as far as it has. computed_at_ms: of the newest statement; queried: whether one ran for this answer."""

    computed_at_ms: int | None = None
    queried: bool = False

    def note(self, computed_at_ms: int, *, queried: bool) -> None:
        self.computed_at_ms = max(computed_at_ms, self.computed_at_ms or 0)
        self.queried = self.queried or queried


@dataclass(frozen=True, slots=True)
class Inquiry:
    """One question about one funnel, ready for the engine.

    funnel_id, revision: None for a definition that is not saved. website_id: as asked, None for all. facts: of the data that is read.
    fresh: whether everything that was acknowledged before the question can be read. version: of the data, as `content_of`. parts: in which
    they lay then, as `parts_of`.
    """

    workspace_id: WorkspaceId
    definition: Definition
    question: Question
    facts: Facts
    website_id: str | None
    fresh: bool
    version: int
    parts: int
    funnel_id: str | None = None
    revision: int | None = None
    service: Service = field(default_factory=Service, compare=False)

    @property
    def head(self) -> dict[str, Any]:
        """The head of the answer (`HeadRecord`). To be read when all statements of the answer were asked."""
        computed_at_ms = self.service.computed_at_ms
        return {
            "funnelId": self.funnel_id,
            "definitionRevision": self.revision,
            "goals": [asdict(goal) for goal in self.definition.goals],
            "countingUnit": self.definition.counting_unit,
            "evaluatedAt": iso(self.question.evaluated_at_ms),
            "computedAt": iso(self.question.evaluated_at_ms if computed_at_ms is None else computed_at_ms),
            "servedFrom": ServedFrom.QUERY if self.service.queried or computed_at_ms is None else ServedFrom.CACHE,
            "period": {"startAt": iso_or_none(self.question.start_ms), "endAt": iso_or_none(self.question.end_ms)},
            "websiteId": self.website_id,
        }
