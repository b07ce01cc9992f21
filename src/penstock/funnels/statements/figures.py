"""The figures of a cohort: for each, its expression in every relation between fold and answer.

folded      counted over the units of the general fold
simple      taken from a tally of the packed fold
nothing     of a cohort that nobody entered
merged      the figures of one cohort put together, from both folds
total       of one cohort or of all of them; `selected`: those that pass the cohort filter
"""

from typing import NamedTuple

from penstock.funnels.statements.query import Plan


class Figure(NamedTuple):
    """One figure of a cohort. total_name: its column in the answer."""

    name: str
    folded: str
    simple: str
    nothing: str
    merged: str
    total: str
    total_name: str


def figures(plan: Plan) -> list[Figure]:
    """The figures of a report, in the order of their columns.

    Counts follow the cohort filter; data quality covers all entry cohorts of the period.
    """
    n, breadth = len(plan.steps), plan.breadth
    waiting = f"{plan.evaluated_at()} <= {plan.window_end('entry_ts')}"
    options = [plan.mask(bit) for step in plan.steps for bit in step.each]
    diagnostics = sum(bits.row.diagnostic for bits in plan.rows)
    return [
        _number("entered", "count()", "entered", filtered=True),
        _list(
            "counts", n, f"arrayMap(k -> reached >= k, range(1, {n + 1}))", "counts", filtered=True
        ),
        _list(
            "pendings",
            n - 1,
            f"arrayMap(k -> reached = k AND {waiting}, range(1, {n}))",
            "pendings",
            filtered=True,
        ),
        _list(
            "options",
            len(options),
            f"arrayMap(bit -> bitAnd(chosen, bit) != 0, [{', '.join(options)}])",
            "options",
            filtered=True,
        ),
        _completion(n),
        _list("seen_units", diagnostics, "arrayMap(count -> count > 0, seen)", filtered=True),
        _list("seen_events", diagnostics, "seen", filtered=True),
        _list(
            "missing",
            breadth,
            "arrayMap(key -> key = 0, keys)",
            "arrayMap(key -> if(key = 0, entered, 0), keys)",
        ),
        _list("conflicting", breadth, f"arrayMap(j -> bitTest(conflicts, j), range({breadth}))"),
        _number("skips", "sum(skips)"),
        _number("ties", "sum(ties)"),
        _number("invalid", "sum(invalid)"),
        _number("tied", "sum(tied)"),
        _number("cut", "sum(cut)"),
        _number("several", "sum(several)", "several"),
        _number("disordered", "countIf(skips + ties + invalid > 0)"),
        _number("unitless", "0", "unitless"),
        _number("unverified", "0"),
    ]


def zeros(length: int) -> str:
    return f"CAST([{', '.join('0' for _ in range(length))}], 'Array(UInt64)')"


def _number(name: str, folded: str, simple: str = "0", *, filtered: bool = False) -> Figure:
    """simple: 0 where a unit with such a figure is never simple."""
    total = f"sumIf({name}, selected)" if filtered else f"sum({name})"
    return Figure(name, folded, simple, "0", f"sum({name})", total, name)


def _list(
    name: str, length: int, of_unit: str, simple: str | None = None, *, filtered: bool = False
) -> Figure:
    """of_unit: the list of one folded unit."""
    total = f"sumForEachIf({name}, selected)" if filtered else f"sumForEach({name})"
    return Figure(
        name,
        f"sumForEach({of_unit})",
        simple or zeros(length),
        zeros(length),
        f"sumForEach({name})",
        total,
        name,
    )


def _completion(n: int) -> Figure:
    """The state of the median completion time in milliseconds."""
    state = "quantileExactInclusiveStateIf(0.5)"
    return Figure(
        "completion",
        f"{state}(done_ts - entry_ts, reached = {n})",
        "completion",
        f"{state}(ts, 0)",
        "quantileExactInclusiveMergeState(0.5)(completion)",
        "quantileExactInclusiveMergeIf(0.5)(completion, selected)",
        "median_ms",
    )
