"""Limits how long the engine needs to analyse the statement of a definition.

The time grows with the number of expressions in the filters. One unit of cost takes up to 0.02 CPU
seconds, measured with provider events, which make the longest statement. So a definition at the
limit takes less than ten seconds, and every saved definition can be evaluated.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.base.errors import Fault
from penstock.base.wording import listed
from penstock.funnels.definitions.builtins import FIRST_TIME
from penstock.funnels.definitions.operators import Operator
from penstock.funnels.definitions.schema import GOAL, SavedFilter, SavedMatch, SavedStep

MAX_COST = 400
_VALUE_BYTES_PER_UNIT = 1024
_PATTERN_UNITS = 2
"""Cost of a page path with `*`."""
_FIRST_TIME_UNITS = 40
"""Cost of a filter on `$first_time`, which reads the history of all visitors once more."""

_COSTS: Mapping[str, int] = {operator: operator.traits.cost for operator in Operator}


def _rule() -> str:
    """Describe the costs of filters in words."""
    names: dict[int, list[str]] = {}
    for operator in Operator:
        if not operator.traits.negative:
            names.setdefault(operator.traits.cost, []).append(operator)
    dearer = "".join(
        f"With {listed(names[cost], 'or')} it costs {cost}. " for cost in sorted(names) if cost > 1
    )
    return (
        f"A filter costs 1. {dearer}Each {_VALUE_BYTES_PER_UNIT:,} bytes of a value add 1. "
        f"A page path with * costs {_PATTERN_UNITS}, and {FIRST_TIME} {_FIRST_TIME_UNITS}."
    )


class MatchCost(NamedTuple):
    """The cost of the filters in one part of a definition. path: for example `steps[2]`."""

    path: str
    units: int


def match_units(match: SavedMatch, goals: Mapping[str, SavedMatch]) -> int:
    """Return the cost of a match in units, including the goal that it refers to."""
    units = _value_units(match.value) + filter_units(match.filters)
    if match.type == "Pageview" and "*" in match.value:
        units += _PATTERN_UNITS
    if match.type == GOAL and match.value in goals:
        units += match_units(goals[match.value], {})
    return units


def filter_units(filters: Sequence[SavedFilter], matches: int = 1) -> int:
    """Return the cost of filters in units. matches: number of matches that the filters apply to."""
    return sum(
        _FIRST_TIME_UNITS * matches
        if item.property == FIRST_TIME
        else _COSTS.get(item.operator, 1) + _value_units(item.value)
        for item in filters
    )


def row_costs(steps: Sequence[SavedStep], goals: Mapping[str, SavedMatch]) -> list[MatchCost]:
    """Return the cost of each row, including its `or` rows."""
    return [
        MatchCost(f"steps[{index}]", sum(match_units(match, goals) for match in (step, *step.or_)))
        for index, step in enumerate(steps)
    ]


def read_match(raw: object) -> SavedMatch:
    """Read the parts of a match that affect its cost. raw: input that is not validated yet."""
    fields = raw if isinstance(raw, dict) else {}
    return SavedMatch(
        type=_text(fields.get("type")),
        value=_text(fields.get("value")),
        filters=[
            SavedFilter(
                property=_text(item.get("property")),
                operator=_text(item.get("operator")),
                value=_text(item.get("value")),
            )
            for item in _list(fields.get("filters"))
            if isinstance(item, dict)
        ],
    )


def read_step(raw: object) -> SavedStep:
    """Like `read_match`, but for a row with its `or` rows."""
    rows = _list(raw.get("or")) if isinstance(raw, dict) else []
    return SavedStep(
        **dict(read_match(raw)), or_=[read_match(row) for row in rows], mode=None, diagnostic=False
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _value_units(value: str) -> int:
    return len(value.encode("utf-8", "surrogatepass")) // _VALUE_BYTES_PER_UNIT


def cost_fault(costs: Iterable[MatchCost], field: str, limit: int = MAX_COST) -> Fault | None:
    """If the costs are above the limit, return a fault that names the most expensive parts."""
    by_cost = sorted(costs, key=lambda cost: -cost.units)
    total = sum(cost.units for cost in by_cost)
    if total <= limit:
        return None
    largest = ", ".join(f"{cost.path} ({cost.units:,})" for cost in by_cost[:3] if cost.units)
    return Fault(
        field,
        "too_costly",
        f"The filters cost {total:,} in total; the limit is {limit}. Drop or simplify filters "
        f"that cost {total - limit:,}. The most expensive are in {largest}. {_rule()}",
    )
