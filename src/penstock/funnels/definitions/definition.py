"""A funnel's definition: every rule of what may be sent, the form that is stored, and the form that is evaluated.

All faults of a body are told at once, with their field paths. So a rule about one field and another stands on the later of the two, which
sees the earlier ones as far as they are valid; pydantic would hold back a rule about the whole object until every field is right.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, ValidationInfo, ValidatorFunctionWrapHandler, field_validator, model_validator

from penstock.base.errors import Fault
from penstock.funnels.definitions.filters import EventField, OwnProperty
from penstock.funnels.definitions.matches import GOAL, MatchIn, at_most, every_fault, resolved_match, saved_filters
from penstock.funnels.definitions.model import CountingUnit, Definition, GoalUse, Match, Row
from penstock.funnels.definitions.records import GoalRecord, SavedDefinition, SavedMatch, SavedStep
from penstock.funnels.definitions.surroundings import Surroundings
from penstock.http.schema import Input, Name, RuleBroken, RulesBroken

MIN_STEPS, MAX_STEPS, MAX_ROWS = 2, 20, 30
MAX_OR_ROWS = 20
MAX_MATCHES = 256
MAX_BREAKDOWNS = 3
ATTEMPT_WINDOW_S = 604_800

WindowSeconds = Literal[3600, 86400, 604800, 1209600, 2592000, 7776000]
WINDOWS_S: tuple[int, ...] = get_args(WindowSeconds)
_WINDOWS = ", ".join(map(str, WINDOWS_S))


class StepIn(MatchIn):
    """One row of a funnel: a required step, or a diagnostic row."""

    diagnostic: bool = False
    mode: Annotated[
        Literal["all_of"] | None, Field(description="all_of: the step needs the parent match and every `or` row, in any order.")
    ] = None
    or_: Annotated[list[MatchIn], at_most(MAX_OR_ROWS), Field(alias="or", default_factory=list)]

    @model_validator(mode="before")
    @classmethod
    def _or_is_checked_when_absent(cls, row: Any) -> Any:
        return {"or": [], **row} if isinstance(row, dict) else row

    @field_validator("mode")
    @classmethod
    def _is_for_steps(cls, mode: str | None, info: ValidationInfo) -> str | None:
        if mode and info.data.get("diagnostic"):
            raise RuleBroken("diagnostic_group", "A diagnostic row cannot be all_of; leave mode out, or write a row for each part.")
        return mode

    @field_validator("or_")
    @classmethod
    def _makes_a_group(cls, rows: list[MatchIn], info: ValidationInfo[Surroundings]) -> list[MatchIn]:
        if not info.data.get("mode"):
            return rows
        if not rows:
            raise RuleBroken("required", "A step with mode all_of needs `or` rows, which are its further parts.")
        if {"type", "value", "filters"} <= info.data.keys():
            parent = MatchIn.model_construct(**{name: info.data[name] for name in MatchIn.model_fields})
            if faults := list(_identical_parts([parent, *rows], info.context.goals)):
                raise RulesBroken(faults)
        return rows

    def saved_step(self) -> SavedStep:
        rows = [row.saved() for row in self.or_]
        return SavedStep(
            type=self.type,
            value=self.value,
            filters=saved_filters(self.filters),
            or_=rows,
            mode=self.mode,
            diagnostic=self.diagnostic,
        )


class FunnelIn(Input):
    """A funnel as a client sends it."""

    name: Name
    counting_unit: CountingUnit = CountingUnit.VISITOR
    attempt_property: Annotated[
        OwnProperty | None,
        Field(description="Carries the attempt ID; attempt funnels need it, visitor funnels refuse it."),
    ] = None
    sequence_property: Annotated[OwnProperty | None, Field(description="Carries the sequence number that orders equal timestamps.")] = None
    breakdown_properties: Annotated[list[EventField], at_most(MAX_BREAKDOWNS), Field(default_factory=list)]
    conversion_window_seconds: Annotated[
        WindowSeconds | None,
        Field(description="Absent: seven days for attempts, unlimited for visitors. null: unlimited, visitors only."),
    ] = None
    steps: Annotated[
        list[StepIn], Field(description=f"{MIN_STEPS} to {MAX_STEPS} required steps; at most {MAX_ROWS} rows with the diagnostic ones.")
    ]

    @model_validator(mode="before")
    @classmethod
    def _attempt_property_is_checked_when_absent(cls, funnel: Any) -> Any:
        return {"attemptProperty": None, **funnel} if isinstance(funnel, dict) else funnel

    @field_validator("attempt_property")
    @classmethod
    def _fits_unit(cls, key: str | None, info: ValidationInfo) -> str | None:
        unit = info.data.get("counting_unit")
        if unit is CountingUnit.ATTEMPT and key is None:
            raise RuleBroken("required", "A funnel that counts attempts needs the property that carries the attempt ID.")
        if unit is CountingUnit.VISITOR and key is not None:
            raise RuleBroken("not_allowed", "Only a funnel that counts attempts has it; set countingUnit to attempt, or leave it out.")
        return key

    @field_validator("breakdown_properties", mode="wrap")
    @classmethod
    def _are_distinct(cls, keys: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        first = keys[: MAX_BREAKDOWNS + 1] if isinstance(keys, list) else []
        repeated = [at for at, key in enumerate(first) if key in first[:at]]
        return every_fault([Fault(f"[{at}]", "repeated", "Each property may be named once.") for at in repeated], keys, validate)

    @field_validator("conversion_window_seconds", mode="before")
    @classmethod
    def _is_a_window(cls, seconds: Any, info: ValidationInfo) -> Any:
        attempts = info.data.get("counting_unit") is CountingUnit.ATTEMPT
        if seconds is None and not attempts:
            return None
        if seconds is None:
            raise RuleBroken("window_required", f"An attempt funnel needs a finite window: {_WINDOWS}; leave it out for seven days.")
        if seconds not in WINDOWS_S:
            raise RuleBroken("not_one_of", f"Must be one of {_WINDOWS}" + (", in seconds." if attempts else ", in seconds, or null."))
        return int(seconds)

    @field_validator("steps", mode="wrap")
    @classmethod
    def _are_counted(cls, rows: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        if not isinstance(rows, list):
            return validate(rows)
        return every_fault(list(_row_faults(rows)), rows[:MAX_ROWS], validate)

    def saved(self) -> SavedDefinition:
        """The definition as it is stored, with every default filled in."""
        window_s = self.conversion_window_seconds
        return SavedDefinition(
            steps=[step.saved_step() for step in self.steps],
            counting_unit=self.counting_unit,
            attempt_property=self.attempt_property,
            sequence_property=self.sequence_property,
            breakdown_properties=self.breakdown_properties,
            conversion_window_seconds=ATTEMPT_WINDOW_S if window_s is None and self.counting_unit is CountingUnit.ATTEMPT else window_s,
        )


def _row_faults(rows: list[Any]) -> Iterator[Fault]:
    """Broken rules about the rows as a list. Looks at them as sent, for some may be faulty in themselves."""
    objects = [row if isinstance(row, dict) else {} for row in rows]
    required = sum(row.get("diagnostic") is not True for row in objects)
    if len(rows) > MAX_ROWS:
        yield Fault("", "too_many", f"A funnel has at most {MAX_ROWS} rows; there are {len(rows)}.")
    if required < MIN_STEPS:
        yield Fault("", "too_few_steps", f"A funnel needs at least {MIN_STEPS} required steps; there {_are(required)}.")
    if required > MAX_STEPS:
        yield Fault(
            "", "too_many_steps", f"A funnel has at most {MAX_STEPS} required steps; there {_are(required)}. Diagnostic rows are extra."
        )
    if objects and objects[0].get("diagnostic") is True:
        yield Fault("[0].diagnostic", "first_row_diagnostic", "The first row must be a required step; put the diagnostic row after it.")
    matches = sum(1 + len(row["or"]) if isinstance(row.get("or"), list) else 1 for row in objects)
    if matches > MAX_MATCHES:
        yield Fault("", "too_many_matches", f"A funnel has at most {MAX_MATCHES} matches, `or` rows included; there are {matches}.")


def _are(count: int) -> str:
    return "is 1" if count == 1 else f"are {count}"


def _identical_parts(parts: list[MatchIn], goals: Mapping[str, SavedMatch]) -> Iterator[Fault]:
    """Faults of the parts that ask for the same as an earlier one, which no second event could tell apart. parts: the parent first."""
    seen: set[object] = set()
    for at, part in enumerate(parts):
        saved = part.saved()
        if saved.type == GOAL and saved.value not in goals:
            continue
        match = resolved_match(saved, goals)
        meaning = (match.type, match.value, frozenset(match.filters))
        if meaning in seen:
            yield Fault(f"[{at - 1}]", "identical_parts", "An earlier part of this group already asks for the same; make them differ.")
        seen.add(meaning)


def goals_in(definition: SavedDefinition) -> frozenset[str]:
    """Names of the goals that the definition refers to."""
    return frozenset(match.value for step in definition.steps for match in (step, *step.or_) if match.type == GOAL)


def resolve(definition: SavedDefinition, goals: Mapping[str, GoalRecord]) -> Definition:
    """The definition ready to be evaluated. goals: by name, at least those that it refers to, as they are now."""
    matches = {name: goal.match for name, goal in goals.items()}
    used = [goals[name] for name in sorted(goals_in(definition))]
    return Definition(
        rows=tuple(_row(step, matches) for step in definition.steps),
        counting_unit=definition.counting_unit,
        window_s=definition.conversion_window_seconds,
        attempt_property=definition.attempt_property,
        sequence_property=definition.sequence_property,
        breakdown_properties=tuple(definition.breakdown_properties),
        goals=tuple(GoalUse(goal.name, goal.id, goal.revision) for goal in used),
    )


def _row(step: SavedStep, goals: Mapping[str, SavedMatch]) -> Row:
    matches: tuple[Match, ...] = tuple(resolved_match(match, goals) for match in (step, *step.or_))
    return Row(matches, all_of=step.mode is not None, diagnostic=step.diagnostic, saved_as=(step.type, step.value))
