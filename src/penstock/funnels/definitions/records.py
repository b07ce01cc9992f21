"""What is stored and answered of goals and funnels: complete, with every default filled in."""

from typing import Annotated

from pydantic import Field

from penstock.funnels.definitions.model import CountingUnit
from penstock.http.schema import Record


class SavedFilter(Record):
    """value: empty for operators that take none."""

    property: str
    operator: str
    value: str


class SavedMatch(Record):
    """type: `Pageview`, `Screen view`, `Goal`, `Event` or `Transaction`; never `Goal` in a goal. value: as sent."""

    type: str
    value: str
    filters: list[SavedFilter]


class SavedStep(SavedMatch):
    """One row. or_: the further options of a plain step, or the further parts of a group."""

    or_: Annotated[list[SavedMatch], Field(alias="or")]
    mode: str | None
    diagnostic: bool


class SavedDefinition(Record):
    """A funnel's definition without its name, which is no part of what is counted. conversion_window_seconds: None is unlimited."""

    steps: list[SavedStep]
    counting_unit: CountingUnit
    attempt_property: str | None
    sequence_property: str | None
    breakdown_properties: list[str]
    conversion_window_seconds: int | None


class _FunnelHead(Record):
    id: str
    name: str
    revision: int
    created_at: str
    updated_at: str


class FunnelRecord(SavedDefinition, _FunnelHead):
    """A saved funnel. revision: from 1, one more for each saved change of the definition."""

    @property
    def definition(self) -> SavedDefinition:
        return SavedDefinition(**{name: getattr(self, name) for name in SavedDefinition.model_fields})


class DefinitionRecord(SavedDefinition):
    """A definition that was checked and not saved."""

    name: str


class RevisionRecord(Record):
    """A definition that the funnel has or had."""

    revision: int
    name: Annotated[str, Field(description="What the funnel was called then.")]
    definition: SavedDefinition
    created_at: str
    changes: Annotated[list[str], Field(description="What differs from the revision before, in words; empty for the first.")]


class GoalRecord(Record):
    """A saved goal: a name for a match, which funnels refer to. revision: from 1, one more for each new match."""

    id: str
    name: str
    match: SavedMatch
    revision: int
    created_at: str
    updated_at: str
