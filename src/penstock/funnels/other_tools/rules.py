"""The rules of other tools, as tables. No I/O.

`TOOLS` has a row for each tool, and `Switch` a value for each rule on which tools differ. `Choices`
are one value for each switch: those of the funnel (`choices_here`) or of a tool (`choices_there`).
`rules_of` turns any choices between the two into rules that a statement counts by.
Source: docs/other-tools.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from penstock.base.errors import Fault, Invalid
from penstock.base.scalar import Scalar
from penstock.funnels.definitions.model import CountingUnit, Definition
from penstock.funnels.statements.other_tools import (
    CohortFrom,
    Entries,
    Excluded,
    Greedy,
    Rules,
)
from penstock.funnels.statements.query import QueryParams

RULES_OF = "2026-11"
"""The month of the rules. Changed rules get a new month."""


class Tool(StrEnum):
    """Another tool. GA4 is explained and never counted."""

    WINDOWFUNNEL = "windowfunnel"
    POSTHOG = "posthog"
    AMPLITUDE = "amplitude"
    MIXPANEL = "mixpanel"
    GA4 = "ga4"


class Switch(StrEnum):
    """A rule on which tools differ."""

    ENTRIES = "entries"
    TIES = "ties"
    AFTER_END = "afterEnd"
    NUMBERS = "numbers"
    ONE_EVENT = "oneEvent"
    EXCLUDED = "excluded"
    STRICT = "strict"
    ANY_ORDER = "anyOrder"
    COHORT_FROM = "cohortFrom"


Choices = Mapping[Switch, str]


@dataclass(frozen=True, slots=True)
class ToolRules:
    """One tool.

    name: for sentences. choices: values of the switches. modes: for each mode that a request can
    name, the values that it changes. window_s: the tool's default. assumed: what is not documented
    and counts as here. counts_units: whom the tool counts by default.
    """

    name: str
    choices: Choices
    window_s: int | None
    counts_units: str
    modes: Mapping[str, Choices] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()


_WITHIN_MS = 2_000
"""How far apart events may be that Mixpanel counts in either order."""
_OF_FOLD = ("none", "excludes", "dropOff")
"""Strict rules that the fold knows; the others are modes of `windowFunnel`."""
_PEOPLE = "people are merged as here"
_FILTERS = "filters of the question and of test traffic look at the event that enters"

TOOLS: Mapping[Tool, ToolRules] = MappingProxyType(
    {
        Tool.WINDOWFUNNEL: ToolRules(
            "windowFunnel",
            {
                Switch.ENTRIES: "best",
                Switch.TIES: "inStepOrder",
                Switch.AFTER_END: "cut",
                Switch.NUMBERS: "ignored",
                Switch.ONE_EVENT: "every",
                Switch.EXCLUDED: "ignored",
            },
            window_s=None,
            counts_units="what the query groups by",
            modes={
                "seconds": {Switch.TIES: "second"},
                "strict_once": {Switch.ONE_EVENT: "once"},
                "strict_increase": {Switch.TIES: "proven"},
                "strict_order": {Switch.STRICT: "strict_order"},
                "strict_deduplication": {Switch.STRICT: "strict_deduplication"},
            },
            assumed=("the query reads events from the start to the end of the period",),
        ),
        Tool.POSTHOG: ToolRules(
            "PostHog",
            {
                Switch.ENTRIES: "best",
                Switch.TIES: "inStepOrder",
                Switch.AFTER_END: "cut",
                Switch.NUMBERS: "ignored",
                Switch.EXCLUDED: "gone",
                Switch.STRICT: "dropOff",
                Switch.COHORT_FROM: CohortFrom.FIRST,
            },
            window_s=14 * 86_400,
            counts_units="people",
            assumed=(
                _PEOPLE,
                _FILTERS,
                "times are equal if they have the same millisecond; newer releases may take 50 ms",
            ),
        ),
        Tool.AMPLITUDE: ToolRules(
            "Amplitude",
            {
                Switch.ENTRIES: "best",
                Switch.TIES: "second",
                Switch.AFTER_END: "counted",
                Switch.NUMBERS: "ignored",
                Switch.ONE_EVENT: "onePerTime",
                Switch.STRICT: "exact",
                Switch.ANY_ORDER: "withStep1",
            },
            window_s=86_400,
            counts_units="users",
            modes={"millisecond": {Switch.TIES: "inStepOrder"}},
            assumed=(_PEOPLE, _FILTERS, "the window's end is inside"),
        ),
        Tool.MIXPANEL: ToolRules(
            "Mixpanel",
            {
                Switch.ENTRIES: "first",
                Switch.TIES: "within",
                Switch.AFTER_END: "counted",
                Switch.NUMBERS: "ignored",
                Switch.EXCLUDED: "atStep",
                Switch.COHORT_FROM: CohortFrom.EACH_ENTRY,
            },
            window_s=7 * 86_400,
            counts_units="users",
            modes={
                "uniques": {},
                "optimized": {Switch.ENTRIES: "best"},
                "totals": {Switch.ENTRIES: "everyInPeriod"},
            },
            assumed=(_PEOPLE, _FILTERS, "the window's end is inside"),
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts into which a question divides units.

    edges_ms: starts of spans of time, for a trend. name: a breakdown property, and values: those
    that are compared.
    """

    edges_ms: tuple[int, ...] = ()
    name: str | None = None
    values: tuple[Scalar | None, ...] = ()


NO_PARTS = Parts()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rules here and there, and the switches on which they differ, in the order of `Switch`.

    has_whole_seconds: whether events of payment providers may have times in whole seconds.
    """

    tool: Tool
    modes: tuple[str, ...]
    definition: Definition
    params: QueryParams
    here: Choices
    there: Choices
    parts: Parts
    has_whole_seconds: bool

    @property
    def switches(self) -> list[Switch]:
        return [switch for switch in Switch if self.here[switch] != self.there[switch]]

    @property
    def row(self) -> ToolRules:
        return TOOLS[self.tool]

    def rules_here(self) -> Rules:
        return self.divided(Rules(self.definition, self.params), self.here)

    def divided(self, rules: Rules, choices: Choices) -> Rules:
        """Return the rules with the parts of the question."""
        cohort_from = None if self.parts.name is None else CohortFrom(choices[Switch.COHORT_FROM])
        return replace(rules, edges_ms=self.parts.edges_ms, cohort_from=cohort_from)

    def rules_there(self) -> Rules:
        rules = rules_of(self, self.switches)
        assert rules is not None
        if self.tool is Tool.WINDOWFUNNEL:
            modes = tuple(mode for mode in self.modes if mode != "seconds")
            return replace(rules, modes=modes)
        return rules


def compare(
    tool: Tool,
    modes: Sequence[str],
    definition: Definition,
    params: QueryParams,
    parts: Parts = NO_PARTS,
    *,
    has_whole_seconds: bool = False,
) -> Comparison:
    """Return the rules of a funnel and of a tool.

    parts, has_whole_seconds: see `Comparison`.

    Raises Invalid if the tool's rule for a part of the funnel is unknown or not counted.
    """
    if tool is Tool.GA4:
        raise Invalid([Fault("countLike", "rule_not_counted", _GA4)])
    row = TOOLS[tool]
    if tool is Tool.MIXPANEL and not modes:
        modes = ("uniques",)
    if tool is Tool.MIXPANEL and len(modes) > 1:
        raise Invalid([Fault("mode", "not_one_of", f"Must be one of {', '.join(row.modes)}.")])
    if unknown := [mode for mode in modes if mode not in row.modes]:
        known = f"one of {', '.join(row.modes)}" if row.modes else "left out"
        message = f"{row.name} has no mode {unknown[0]}: mode must be {known}."
        raise Invalid([Fault("mode", "not_one_of", message)])
    breakdown_at = definition.breakdown_at
    names = () if parts.name is None else (parts.name,)
    definition = replace(definition, breakdown_properties=names, breakdown_at="entry")
    here = choices_here(definition)
    there = choices_there(row, modes, definition, params)
    comparison = Comparison(
        tool, tuple(modes), definition, params, here, there, parts, has_whole_seconds
    )
    faults = [
        Fault("countLike", "rule_not_counted", f"{rule}: {message}")
        for rule, message in [*_refused(comparison), *_refused_cohorts(comparison, breakdown_at)]
    ]
    if faults:
        raise Invalid(faults)
    return comparison


def choices_here(definition: Definition) -> Choices:
    """Return our rules for this funnel."""
    entries = "every" if definition.repeat else "best"
    if definition.counting_unit is CountingUnit.ATTEMPT:
        entries = "firstEver"
    has_exclusions = any(row.exclude for row in definition.rows)
    return {
        Switch.ENTRIES: entries,
        Switch.TIES: "inStepOrder" if definition.in_step_order else "proven",
        Switch.AFTER_END: "counted",
        Switch.NUMBERS: "used" if definition.sequence_property else "ignored",
        Switch.ONE_EVENT: "once",
        Switch.EXCLUDED: "ownOutcome" if has_exclusions else "none",
        Switch.STRICT: "excludes" if _is_strict(definition) else "none",
        Switch.ANY_ORDER: "anyStep" if definition.in_any_order else "none",
        Switch.COHORT_FROM: CohortFrom.ENTRY if definition.breakdown_properties else "none",
    }


def choices_there(
    row: ToolRules, modes: Sequence[str], definition: Definition, params: QueryParams
) -> Choices:
    """Return the tool's rules for this funnel. A rule that changes nothing here is as here."""
    here = choices_here(definition)
    there = {**here, **row.choices}
    for mode in modes:
        there |= row.modes[mode]
    if {"seconds", "strict_increase"} <= set(modes):
        there[Switch.TIES] = "provenBySecond"
    if params.end_ms is None or params.end_ms > params.evaluated_at_ms:
        there[Switch.AFTER_END] = "counted"
    if not definition.has_shared_events:
        there[Switch.ONE_EVENT] = "once"
    if here[Switch.ENTRIES] == "every" and params.start_ms is None:
        there[Switch.ENTRIES] = "every"  # Without a period, no run begins before it.
    if here[Switch.EXCLUDED] == "none":
        there[Switch.EXCLUDED] = "none"
    if here[Switch.STRICT] == "none" and row.choices.get(Switch.STRICT):
        there[Switch.STRICT] = "none"
    if here[Switch.COHORT_FROM] == "none":
        there[Switch.COHORT_FROM] = "none"
    if definition.in_any_order:  # Equal times decide nothing.
        there[Switch.TIES] = here[Switch.TIES]
    else:
        there[Switch.ANY_ORDER] = "none"
    return there


def rules_of(comparison: Comparison, switches: Sequence[Switch]) -> Rules | None:
    """Return our rules with some of the tool's. None if these cannot be counted together."""
    there = comparison.there
    choices = {**comparison.here, **{switch: there[switch] for switch in switches}}
    definition, params = comparison.definition, comparison.params
    definition = replace(
        definition,
        rows=tuple(
            replace(row, strict=True, strict_all=True)
            if choices[Switch.STRICT] == "dropOff" and row in definition.steps[1:]
            else replace(row, strict=False, strict_all=False)
            if choices[Switch.STRICT] == "exact"
            else row
            for row in definition.rows
            if not (row.exclude and choices[Switch.EXCLUDED] == "ignored")
        ),
        sequence_property=definition.sequence_property
        if choices[Switch.NUMBERS] == "used"
        else None,
        in_step_order=choices[Switch.TIES] in ("inStepOrder", "second"),
        counting_unit=definition.counting_unit
        if choices[Switch.ENTRIES] == "firstEver"
        else CountingUnit.VISITOR,
        repeat=False,
    )
    if choices[Switch.AFTER_END] == "cut" and params.end_ms is not None:
        params = replace(params, evaluated_at_ms=params.end_ms - 1)
    tick_ms = 1000 if choices[Switch.TIES] in ("second", "provenBySecond") else 1
    excluded = Excluded.OWN_OUTCOME
    if choices[Switch.STRICT] == "dropOff" or choices[Switch.EXCLUDED] == "atStep":
        excluded = Excluded.AT_STEP
    elif choices[Switch.EXCLUDED] == "gone":
        excluded = Excluded.GONE
    rules = Rules(
        definition,
        params,
        tick_ms,
        one_of_kind=choices[Switch.ONE_EVENT] == "onePerTime",
        by_tries=excluded is Excluded.GONE
        and (choices[Switch.TIES], choices[Switch.NUMBERS], choices[Switch.ENTRIES])
        == ("inStepOrder", "ignored", "best"),
        excluded=excluded,
    )
    rules = comparison.divided(rules, choices)
    counts_best = (choices[Switch.ENTRIES], choices[Switch.NUMBERS]) == ("best", "ignored")
    if choices[Switch.ANY_ORDER] == "withStep1":
        return replace(rules, with_step_1=True) if counts_best else None
    if choices[Switch.STRICT] == "exact":
        rules = replace(rules, by_tries=True, is_exact=True)
        return rules if counts_best and definition.in_step_order else None
    if rules.by_tries and rules.cohort_from is CohortFrom.ENTRY:
        return None  # That fold does not know the entry.
    if comparison.tool is Tool.MIXPANEL:
        within_ms = _WITHIN_MS if choices[Switch.TIES] == "within" else None
        return replace(rules, greedy=Greedy(Entries(choices[Switch.ENTRIES]), within_ms))
    if choices[Switch.ONE_EVENT] != "every" and choices[Switch.STRICT] in _OF_FOLD:
        return _in_linear_time(comparison, rules)
    by_function = (
        choices[Switch.ENTRIES] == "best"
        and choices[Switch.NUMBERS] == "ignored"
        and choices[Switch.EXCLUDED] in ("none", "ignored")
    )
    return replace(rules, modes=_function_modes(comparison, choices)) if by_function else None


def _in_linear_time(comparison: Comparison, rules: Rules) -> Rules:
    """Return the rules with the fold that need not follow each entry, if it counts the same."""
    definition = rules.definition
    is_by_time = (
        definition.counting_unit is CountingUnit.VISITOR
        and definition.sequence_property is None
        and not definition.in_any_order
        and not (definition.in_step_order and definition.has_shared_events)
        and not definition.excludes
        and not comparison.has_whole_seconds
    )
    return replace(rules, greedy=Greedy(Entries.BEST, None)) if is_by_time else rules


def _function_modes(comparison: Comparison, choices: Choices) -> tuple[str, ...]:
    modes = []
    if choices[Switch.ONE_EVENT] == "once":
        modes.append("strict_once")
    if choices[Switch.TIES] in ("proven", "provenBySecond"):
        modes.append("strict_increase")
    if choices[Switch.STRICT] not in _OF_FOLD:
        modes += [mode for mode in comparison.modes if Switch.STRICT in comparison.row.modes[mode]]
    return tuple(modes)


def _is_strict(definition: Definition) -> bool:
    return any(step.strict for step in definition.steps)


def _refused(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the rules that are not counted for this funnel, each with the way out."""
    definition, params, name = comparison.definition, comparison.params, comparison.row.name
    refused = []
    if any(step.all_of for step in definition.steps):
        refused.append(("allOf", f"{name} has no step that needs several events. Split the step."))
    if definition.repeat != (comparison.modes == ("totals",)):
        message = f"{name} counts each person once. Ask about a funnel without repeat."
        if not definition.repeat:
            message = "Totals count every run. Ask about a funnel with repeat, or for uniques."
        elif comparison.tool is Tool.MIXPANEL:
            message = "This funnel counts every run, as totals do. Send mode=totals."
        refused.append(("entries", message))
    if comparison.tool is Tool.MIXPANEL and definition.has_shared_events:
        message = (
            f"Whether one event may do two steps in {name} is not known. Use events that match "
            "only one step."
        )
        refused.append(("oneEvent", message))
    is_posthog, is_amplitude = (comparison.tool is tool for tool in (Tool.POSTHOG, Tool.AMPLITUDE))
    has_exclusions = any(row.exclude for row in definition.rows)
    if definition.in_any_order and not is_amplitude and (not is_posthog or has_exclusions):
        message = f"How {name} counts in any order is not counted yet. Set the order to given."
        refused.append(("anyOrder", message))
    is_exact = is_amplitude and (definition.in_any_order or _is_strict(definition))
    if is_exact and definition.has_shared_events:
        message = (
            f"How {name} counts one event for several steps is not known where steps are strict or "
            "in any order. Use events that match only one step."
        )
        refused.append(("oneEvent", message))
    if is_exact and comparison.parts.name is not None:
        message = (
            f"Which event gives {name} the value is not counted yet where steps are strict or in "
            "any order. Ask for results."
        )
        refused.append(("cohortFrom", message))
    if _is_strict(definition) and not is_posthog and not is_amplitude:
        way_out = "Take strict out of the steps."
        if comparison.tool is Tool.WINDOWFUNNEL:
            way_out = "Take strict out of the steps, and send mode=strict_order."
        message = f"How {name} counts strict steps is not counted yet. {way_out}"
        refused.append(("strict", message))
    if has_exclusions and is_amplitude:
        message = f"How {name} counts exclusions is not known. Take the exclusion row out."
        refused.append(("excluded", message))
    if has_exclusions and is_posthog and (definition.has_shared_events or _is_strict(definition)):
        message = (
            "Exclusions are not counted yet where steps are strict or share events. Take the "
            "exclusion row out."
        )
        refused.append(("excluded", message))
    if params.cohort:
        message = f"{name} takes the values of a cohort from other events. Leave out cohort."
        refused.append(("cohortFrom", message))
    if params.settled:
        refused.append(("settled", f"{name} counts open units too. Leave out settled."))
    return refused


def _refused_cohorts(comparison: Comparison, breakdown_at: str | int) -> Iterator[tuple[str, str]]:
    """Yield why cohorts are not counted. breakdown_at: the event that the question asks for."""
    name = comparison.row.name
    if comparison.parts.name is None:
        return
    if comparison.tool is Tool.WINDOWFUNNEL:
        message = f"The cohorts of {name} are those that its query groups by. Ask for results."
        yield "cohortFrom", message
    if comparison.modes == ("totals",):
        yield "cohortFrom", "How totals divide runs is not known. Ask for results or a trend."
    if breakdown_at != "entry":
        message = f"{name}'s own rule chooses the event of the value. Leave out breakdownAt."
        yield "cohortFrom", message


_GA4 = (
    "ga4: GA4 is not counted. It has no conversion window, only a limit from the step before, and "
    "shows estimates from samples of users; how it treats equal times and the entry is not "
    "documented. Compare the settings, or count like posthog, amplitude, mixpanel or windowfunnel."
)
