"""The figures of a cohort, kept as two lists of numbers that are added up, and as a median.

counted    how far units came; follows the cohort filter
quality    data quality, of all entry cohorts of the period
completion the state of the median completion time in milliseconds

Two lists instead of a column for each figure: the engine analyses every column of every relation,
which takes longer than adding up.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.funnels.statements.query import Plan

COLUMNS = "counted, quality, completion"
_STATE = "quantileExactInclusiveStateIf(0.5)"

OF_TALLIES = """
           arrayConcat(counts, pendings, options) AS counted,
           arrayConcat([unitless, 0, several, arraySum(pendings)],
                       arrayMap(key -> if(key = 0, entered, 0), keys)) AS quality,
           completion"""
"""The figures of a cohort from a tally of simple units."""


class Figure(NamedTuple):
    """Numbers that stand together in one of the lists. of_unit: the list of one unit."""

    name: str
    length: int
    of_unit: str
    is_list: bool = True


def counted(plan: Plan) -> list[Figure]:
    """In the order of the list; what no simple unit has comes last."""
    n, waiting = len(plan.steps), _waiting(plan)
    options = [bit for step in plan.steps for bit in step.each]
    masks = plan.masks(options)
    diagnostics = sum(bits.row.diagnostic for bits in plan.rows)
    return [
        Figure("counts", n, f"arrayMap(k -> reached >= k, range(1, {n + 1}))"),
        Figure("pendings", n - 1, f"arrayMap(k -> reached = k AND {waiting}, range(1, {n}))"),
        Figure("options", len(options), f"arrayMap(bit -> bitAnd(chosen, bit) != 0, {masks})"),
        Figure("seen_units", diagnostics, "arrayMap(count -> count > 0, seen)"),
        Figure("seen_events", diagnostics, "seen"),
    ]


def quality(plan: Plan) -> list[Figure]:
    """As `counted`. The first two count events outside units."""
    n, breadth = len(plan.steps), plan.breadth
    return [
        _number("unitless", "0"),
        _number("unverified", "0"),
        _number("several", "several"),
        _number("open_windows", f"reached < {n} AND {_waiting(plan)}"),
        Figure("missing", breadth, "arrayMap(key -> key = 0, keys)"),
        Figure("conflicting", breadth, f"arrayMap(j -> bitTest(conflicts, j), range({breadth}))"),
        _number("skips", "skips"),
        _number("ties", "ties"),
        _number("invalid", "invalid"),
        _number("tied", "tied"),
        _number("cut", "cut"),
        _number("disordered", "skips + ties + invalid > 0"),
    ]


def _waiting(plan: Plan) -> str:
    """Whether the window of a unit is open."""
    return f"{plan.evaluated_at()} <= {plan.window_end('entry_ts')}"


def _number(name: str, of_unit: str) -> Figure:
    return Figure(name, 1, f"[{of_unit}]", is_list=False)


def of_units(plan: Plan) -> str:
    """The figures of a cohort from the columns of its units."""
    return f"""
           sumForEach({_joined(counted(plan))}) AS counted,
           sumForEach({_joined(quality(plan))}) AS quality,
           {_STATE}(done_ts - entry_ts, reached = {len(plan.steps)}) AS completion"""


def of_events(name: str, count: str) -> str:
    """The figures of a cohort that nobody entered. name: what `count` counts."""
    zeros = "0, " if name == "unverified" else ""
    return f"""
           CAST([], 'Array(UInt64)') AS counted, [{zeros}{count}] AS quality,
           {_STATE}(ts, 0) AS completion"""


def _joined(figures: Sequence[Figure]) -> str:
    return f"arrayConcat({', '.join(figure.of_unit for figure in figures if figure.length)})"


def by_name(plan: Plan) -> dict[str, str]:
    """Each figure as it stands in the lists."""
    lists = {**_places("counted", counted(plan)), **_places("quality", quality(plan))}
    return {"entered": "counted[1]", **lists}


def _places(column: str, figures: Sequence[Figure]) -> dict[str, str]:
    places, first = {}, 1
    for figure in figures:
        part = f"arraySlice({column}, {first}, {figure.length})"
        places[figure.name] = part if figure.is_list else f"{column}[{first}]"
        first += figure.length
    return places
