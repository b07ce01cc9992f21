"""Wire types of a comparison with another tool."""

from operator import not_
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field, ValidationInfo, WithJsonSchema, field_validator

from penstock.funnels.other_tools.rules import Tool
from penstock.http.schema import Query, Record, RuleBroken, without_nul

T = TypeVar("T")


def _of_tool(value: T, info: ValidationInfo) -> T:
    """Validator: require `countLike` with a parameter that belongs to it."""
    if value and info.data.get("count_like") is None:
        raise RuleBroken("needs_tool", "Send countLike as well: it names the tool.")
    return value


class LikeQuery(Query):
    """Query parameters that also count by the rules of another tool."""

    count_like: Tool | None = None
    """Also count the same events by the rules of another tool, and explain the difference.
    `windowfunnel` is the engine's function of this name over the events of the period.
    """
    mode: Annotated[
        tuple[str, ...],
        WithJsonSchema({"type": "string"}),
        Field(
            description="The tool's mode, with countLike. windowfunnel: seconds (instead of "
            "milliseconds), strict_once, strict_increase, strict_order, strict_deduplication; "
            "several are separated by commas. amplitude: millisecond (instead of seconds). "
            "mixpanel: uniques (default), optimized (re-entry), totals (with repeat)."
        ),
    ] = ()

    @field_validator("mode")
    @classmethod
    def _belongs_to_tool(cls, mode: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        return _of_tool(mode, info)

    @field_validator("mode", mode="before")
    @classmethod
    def _read_modes(cls, text: object) -> tuple[str, ...]:
        return tuple(mode for mode in str(text).split(",") if mode)


class ShownQuery(LikeQuery):
    """Query parameters that also compare the number that the other tool shows."""

    shown: Annotated[int | None, Field(ge=0, le=2**53)] = None
    """The number of completed units that the other tool shows, with countLike: splits the
    difference into rules and data.
    """

    _needs_tool = field_validator("shown")(_of_tool)


class DiffersQuery(LikeQuery):
    """Query parameters that select the units on which another tool differs."""

    differs: bool = False
    """true: only units whose reached step or outcome is another by the rules of `countLike`; at
    most 20,000 of each reason. Runs that only the other tool counts are not listed.
    """
    reason: Annotated[str, Field(max_length=100), AfterValidator(without_nul)] | None = None
    """Only units that differ for this reason: the `reason` of a difference in `countLike` of the
    results. Requires `differs=true`.
    """

    @field_validator("differs")
    @classmethod
    def _needs_tool(cls, differs: bool, info: ValidationInfo) -> bool:
        return _of_tool(differs, info)

    @field_validator("reason")
    @classmethod
    def _needs_differs(cls, reason: str | None, info: ValidationInfo) -> str | None:
        if reason is not None and not info.data.get("differs"):
            raise RuleBroken("required", "Send differs=true as well.")
        return reason


class SettingRecord(Record):
    """A setting that may make the numbers differ before any rule does."""

    setting: str
    """window, unit, timezone, periodEnd or testTraffic."""
    here: str
    there: str
    sentence: str


class DifferenceRecord(Record):
    """Units whose reached step or outcome differs because of the same rules."""

    reason: str
    """The reason's name: its rules joined by `-and-`, alternatives by `-or-`."""
    rules: list[str]
    """The smallest set of rules that turns the result here into the result there; `several` if
    more than two rules are needed.
    """
    either: Annotated[bool, Field(exclude_if=not_)] = False
    """Each of several smallest sets would do. Present only if true."""
    units: int
    only_there: int
    """Units that completed only there."""
    only_here: int
    """Units that completed only here."""
    sentence: str


class ShownRecord(Record):
    """The number that the other tool shows: shown = byRules + unexplained."""

    shown: int
    by_rules: int
    unexplained: int
    """The part that rules do not explain: people, filters, missing events."""


class LikeRulesRecord(Record):
    """The rules of another tool."""

    tool: Tool
    mode: str
    """Modes of the request, separated by commas; empty for none."""
    rules: str
    """Month of the rules."""
    definition: dict[str, str]
    """The rules that the tool counts by, by name."""
    assumed: list[str]
    """Rules that the tool does not document, or that cannot be known here."""
    settings: list[SettingRecord]
    """Settings to compare first."""


class LikeFiguresRecord(Record):
    """The same events counted by the rules of another tool.

    completed there = completedHere + onlyThere - onlyHere.
    """

    entered: int
    completed: int
    entered_here: int
    completed_here: int
    only_there: int
    only_here: int
    same_units: int
    """Units that entered here or there, with the same reached step and outcome in both."""
    reasons: list[DifferenceRecord]
    """Most units first."""
    sentences: list[str]


class CountLikeRecord(LikeFiguresRecord, LikeRulesRecord):
    """The same events counted by the rules of another tool.

    completed there = completedHere + onlyThere - onlyHere.
    """

    shown: ShownRecord | None
    """null unless the request has `shown`."""


class UnitThereRecord(Record):
    """A unit by the rules of another tool."""

    tool: Tool
    mode: str
    reached: int
    """Steps completed there; 0 if the unit does not enter there."""
    completed: bool
    reason: str | None
    """Why the result differs from ours, as in `countLike` of the results; null if it does not."""
    sentence: str
