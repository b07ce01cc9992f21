"""Goals and funnels as they are stored and answered, with every default filled in."""

from typing import Annotated

from pydantic import Field

from penstock.funnels.definitions.model import CountingUnit
from penstock.http.schema import Record


class SavedFilter(Record):
    """value: as sent; empty for operators that take no value."""

    property: str
    operator: str
    value: str


class SavedMatch(Record):
    """type: `Pageview`, `Screen view`, `Event`, `Transaction`, or `Goal` (not in a goal).

    value: as sent.
    """

    type: str
    value: str
    filters: list[SavedFilter]


class SavedStep(SavedMatch):
    """One row. or_: the other options of a plain step, or the other parts of a group."""

    or_: Annotated[list[SavedMatch], Field(alias="or")]
    mode: str | None
    diagnostic: bool


class SavedDefinition(Record):
    """A funnel's definition without its name, which does not affect the counts.

    conversion_window_seconds: None: unlimited.
    """

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
    """A saved funnel. revision: from 1; each saved change of the definition adds one."""

    @property
    def definition(self) -> SavedDefinition:
        return SavedDefinition(
            **{name: getattr(self, name) for name in SavedDefinition.model_fields}
        )


class DefinitionRecord(SavedDefinition):
    """A definition that was validated and not saved."""

    name: str


class RevisionRecord(Record):
    """A present or past definition of a funnel."""

    revision: int
    name: Annotated[str, Field(description="Name of the funnel at that time.")]
    definition: SavedDefinition
    created_at: str
    changes: Annotated[
        list[str],
        Field(description="Differences from the previous revision, in words."),
    ]


class GoalRecord(Record):
    """A saved goal: a name for a match. Funnels refer to it by name.

    revision: from 1; each new match adds one.
    """

    id: str
    name: str
    match: SavedMatch
    revision: int
    created_at: str
    updated_at: str
