"""The figures of a cohort, kept as two lists of numbers that are added up, and as a median.

counted how far units came, in the cohorts that the cohort filter selects
quality data quality, in all entry cohorts of the period
completion the state of the median completion time in milliseconds
waiting_ages the pending units by steps and part of age, if the plan asks for them

There are two lists instead of one column per figure, because the engine analyses every column of
every relation, which takes longer than adding up the numbers. `read` names the figures.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from penstock.funnels.definitions.model import Definition, Row
from penstock.funnels.statements.query import Plan

LISTS = "counted, quality"
_MAX_STEPS = 32
"""More than the steps of any funnel."""
ENTERED = "counted[1]"
_QUALITY = (
    "unitless",
    "unverified",
    "several",
    "open_windows",
    "skips",
    "ties",
    "invalid",
    "tied",
    "cut",
    "disordered",
    "coarse",
    "assumed",
)
"""Names of the first numbers in `quality`. The first two count events outside units."""


def columns(plan: Plan) -> str:
    """Return the columns of a part of a cohort."""
    return f"{LISTS}, completion{', waiting_ages' if plan.params.ages_ms else ''}"


def waiting_ages(plan: Plan, pending: str) -> str:
    """Return the number of pending units by number of steps and part of age, as the column
    `waiting_ages` with a comma before it, or nothing if the plan does not ask for it.

    pending: whether a unit is pending.
    """
    if not plan.params.ages_ms:
        return ""
    starts = plan.binder.bind("Array(Int64)", list(plan.params.ages_ms))
    part = f"roundDown({plan.evaluated_at()} - entry_ts, {starts})"
    key = f"toUInt64({part} * {_MAX_STEPS} + reached)"
    return f", sumMapIf([{key}], [toUInt64(1)], {pending}) AS waiting_ages"


def sum_of_ages(plan: Plan, selected: str = "1") -> str:
    """Return the sum of the column `waiting_ages`, with a comma before it."""
    if not plan.params.ages_ms:
        return ""
    return f", sumMapIf(waiting_ages.1, waiting_ages.2, {selected}) AS waiting_ages"


def read_ages(row: Mapping[str, Any]) -> list[tuple[int, int, int]]:
    """Return the pending units of a row: their steps, the start of their part of age, and their
    number.
    """
    return [
        (key % _MAX_STEPS, key // _MAX_STEPS, count)
        for key, count in zip(*row.get("waiting_ages", ((), ())), strict=True)
    ]


def parts(plan: Plan) -> str:
    """Return the columns by which `unit_figures` groups.

    The keys are combined into one hash, because serialising a list would take a quarter of the time
    of a stored report.
    """
    more = (", excluded" if plan.excludes else "") + (", reopened" if plan.reopens else "")
    return f"cityHash64(units.keys), reached, waiting{more}"


def completed_units(plan: Plan) -> str:
    return f"counted[{len(plan.steps)}]"


def pending_units(plan: Plan) -> str:
    """Return the sum of the pending units of all steps."""
    n = len(plan.steps)
    return f"arraySum(arraySlice(counted, {n + 1}, {n - 1}))"


def early_units(plan: Plan) -> str:
    """Return the completed units whose window is still open."""
    return f"counted[{2 * len(plan.steps)}]"


def excluded_units(plan: Plan) -> str:
    """Return the sum of the excluded units of all steps."""
    n = len(plan.steps)
    return f"arraySum(arraySlice(counted, {2 * n + 1}, {n - 1}))" if plan.excludes else "0"


def reopened_units(plan: Plan) -> str:
    """Return the sum of the units of all steps that dropped off and are open."""
    n = len(plan.steps)
    first = 2 * n + 1 + (n - 1 if plan.excludes else 0)
    return f"arraySum(arraySlice(counted, {first}, {n - 1}))" if plan.reopens else "0"


def reopened_exclusions(plan: Plan) -> str:
    """Return the excluded units that are open."""
    return f"counted[{4 * len(plan.steps) - 1}]" if plan.reopens and plan.excludes else "0"


def eligible_units(plan: Plan) -> str:
    """Return the units that are not excluded: the denominator of every rate."""
    return f"({ENTERED} - {excluded_units(plan)})" if plan.excludes else ENTERED


def quality_list(numbers: Mapping[str, str], conflicting: Sequence[str] = ()) -> str:
    """Return the list `quality`. Missing numbers are 0.

    conflicting: number of conflicting units, per entry value.
    """
    return f"[{', '.join([*(numbers.get(name, '0') for name in _QUALITY), *conflicting])}]"


def median_state(took_ms: str, is_complete: str) -> str:
    """Return the state of a column's median over the rows that meet a condition."""
    return f"quantileExactInclusiveStateIf(0.5)({took_ms}, {is_complete})"


def unit_figures(plan: Plan) -> str:
    """Return the figures of a cohort from the columns of `units`, in parts to be added up.

    The units of a part completed the same steps, and either all or none of them are waiting, are
    excluded and are open (`parts`). So a list is made for each part, not for each unit.
    """
    n = len(plan.steps)
    # By furthest step. At step n, these are the early completions.
    waiting = "arrayPushBack(arrayWithConstant(reached - 1, 0), count() * waiting)"
    counted = [
        f"arrayResize(arrayWithConstant(reached, count()), {n})",
        f"arrayResize({waiting}, {n})",
    ]
    open_window = f"{plan.evaluated_at()} <= {plan.window_end('entry_ts')}"
    columns = f"{open_window} AS waiting"
    if plan.excludes:
        excluded = "arrayPushBack(arrayWithConstant(reached - 1, 0), count() * excluded)"
        counted.append(f"arrayResize({excluded}, {n - 1})")
        columns = f"""excluded_after >= 0 AS excluded,
           NOT excluded AND {open_window} AS waiting"""
    if plan.reopens:
        columns += ", open AND NOT waiting AS reopened"
        counted.append(f"arrayResize({_reopened(plan)}, {n - 1})")
        if plan.excludes:
            counted.append("[count() * (reopened AND excluded)]")
    if plan.definition.has_options:
        masks = plan.masks([bit for step in plan.steps for bit in step.each])
        counted.append(f"sumForEach(arrayMap(bit -> bitAnd(chosen, bit) != 0, {masks}))")
    if any(bits.row.diagnostic for bits in plan.rows):
        counted += ["sumForEach(arrayMap(count -> count > 0, seen))", "sumForEach(seen)"]
    of_unit = ("several", "skips", "ties", "invalid", "tied", "cut", "coarse", "assumed")
    numbers = {name: f"sum({name})" for name in of_unit} | {
        "open_windows": "countIf(open)",
        "disordered": "countIf(skips + ties + invalid > 0)",
    }
    conflicting = [f"countIf(bitTest(conflicts, {j}))" for j in range(plan.breadth)]
    return f"""
           {_joined(counted)} AS counted, {quality_list(numbers, conflicting)} AS quality,
           {median_state("done_ts - entry_ts", f"reached = {n}")} AS completion
           {waiting_ages(plan, is_pending(plan))},
           {columns}"""


def is_pending(plan: Plan) -> str:
    """Whether a unit is pending, from the columns of `units`."""
    is_open = f"{plan.evaluated_at()} <= {plan.window_end('entry_ts')}"
    return f"reached < {len(plan.steps)} AND excluded_after < 0 AND {is_open}"


def _reopened(plan: Plan) -> str:
    is_eligible = " AND NOT excluded" if plan.excludes else ""
    return f"arrayPushBack(arrayWithConstant(reached - 1, 0), count() * (reopened{is_eligible}))"


def event_figures(plan: Plan, name: str, count: str) -> str:
    """Return the figures of a cohort without entries. name: name of the figure for `count`."""
    ages = "sumMapIf([toUInt64(0)], [toUInt64(0)], 0) AS waiting_ages"
    return f"""
           CAST([], 'Array(UInt64)') AS counted, {quality_list({name: count})} AS quality,
           {median_state("ts", "0")} AS completion{", " + ages if plan.params.ages_ms else ""}"""


def _joined(lists: Sequence[str]) -> str:
    return f"arrayConcat({', '.join(lists)})" if len(lists) > 1 else lists[0]


def read(definition: Definition, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a cohort by name.

    A list is shorter if the engine had nothing to add up; the missing numbers are 0. row: the
    cohort's lists, and `missing` if the funnel has breakdown properties.
    """
    n, breadth = len(definition.steps), len(definition.breakdown_properties)
    options = sum(len(step.matches) for step in definition.steps)
    diagnostics = definition.diagnostics
    seen = len(diagnostics) + sum(row.all_of for row in diagnostics)
    lengths = {"counts": n, "pendings": n - 1, "early": 1}
    lengths |= {
        "excluded": n - 1 if definition.excludes else 0,
        "reopened": n - 1 if definition.reopens else 0,
        "reopened_excluded": int(definition.reopens and definition.excludes),
        "options": 0,
    }
    if definition.has_options:
        lengths["options"] = options
    lengths |= {"seen_units": seen, "seen_events": seen}
    figures: dict[str, Any] = _cut(row["counted"], lengths)
    quality = _cut(row["quality"], {"numbers": len(_QUALITY), "conflicting": breadth})
    return {
        **figures,
        **_cut(row.get("missing", ()), {"missing": breadth}),
        "early": figures["early"][0],
        "excluded": figures["excluded"] or [0] * (n - 1),
        "reopened": figures["reopened"] or [0] * (n - 1),
        "reopened_excluded": sum(figures["reopened_excluded"]),
        "options": figures["options"] or figures["counts"],
        **dict(zip(_QUALITY, quality["numbers"], strict=True)),
        "conflicting": quality["conflicting"],
        "seen_units": _units_of_rows(diagnostics, figures["seen_units"]),
        "seen_events": figures["seen_events"][: len(diagnostics)],
    }


def _units_of_rows(rows: Sequence[Row], seen_units: Sequence[int]) -> list[int]:
    """Return the number of units that each diagnostic row counts.

    seen_units: units with an event of each row; then, for each row that is a group, units with an
    event of every part.
    """
    groups = iter(seen_units[len(rows) :])
    return [
        next(groups) if row.all_of else units for row, units in zip(rows, seen_units, strict=False)
    ]


def _cut(values: Sequence[int], lengths: Mapping[str, int]) -> dict[str, list[int]]:
    """Split a list into named parts of the given lengths."""
    edges = [0, *accumulate(lengths.values())]
    padded = [*values, *([0] * (edges[-1] - len(values)))]
    return {
        name: padded[first:end] for name, (first, end) in zip(lengths, pairwise(edges), strict=True)
    }
