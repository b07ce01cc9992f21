"""What a definition costs the engine before it reads a single event, and the limit on that.

The engine analyses a statement of all filters; measured, the time grows with the number of their
expressions: 0.02 CPU seconds for one unit of cost where provider events make the statement longest.
So a definition at the limit takes less than ten seconds, and whatever is saved can be evaluated.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.base.errors import Fault
from penstock.base.wording import listed
from penstock.funnels.definitions.operators import Operator
from penstock.funnels.definitions.schema import GOAL, SavedFilter, SavedMatch, SavedStep

MAX_COST = 400
_VALUE_BYTES_PER_UNIT = 1024
_PATTERN = 2
"""Of a page path with `*`."""

_COSTS: Mapping[str, int] = {operator: operator.traits.cost for operator in Operator}


def _rule() -> str:
    """What a filter costs, in words."""
    names: dict[int, list[str]] = {}
    for operator in Operator:
        if not operator.traits.negative:
            names.setdefault(operator.traits.cost, []).append(operator)
    dearer = "".join(
        f"one with {listed(names[cost], 'or')} {cost}, " for cost in sorted(names) if cost > 1
    )
    return (
        f"A filter costs 1; {dearer}and each {_VALUE_BYTES_PER_UNIT:,} bytes of a value 1 more. "
        f"A page path with * costs {_PATTERN}."
    )


class MatchCost(NamedTuple):
    """What the filters of one part of a definition cost. place: its path, such as `steps[2]`."""

    place: str
    units: int


def match_units(match: SavedMatch, goals: Mapping[str, SavedMatch]) -> int:
    """Units of a match, with those of the goal that it names."""
    units = _value_units(match.value)
    if match.type == "Pageview" and "*" in match.value:
        units += _PATTERN
    for item in match.filters:
        units += _COSTS.get(item.operator, 1) + _value_units(item.value)
    if match.type == GOAL and match.value in goals:
        units += match_units(goals[match.value], {})
    return units


def row_costs(steps: Sequence[SavedStep], goals: Mapping[str, SavedMatch]) -> list[MatchCost]:
    """What each row costs with its `or` rows."""
    return [
        MatchCost(f"steps[{place}]", sum(match_units(match, goals) for match in (step, *step.or_)))
        for place, step in enumerate(steps)
    ]


def sent_match(raw: object) -> SavedMatch:
    """A match as far as its cost goes, of an input that was not validated yet."""
    fields = raw if isinstance(raw, dict) else {}
    return SavedMatch(
        type=_text(fields.get("type")),
        value=_text(fields.get("value")),
        filters=[
            SavedFilter(
                property="", operator=_text(item.get("operator")), value=_text(item.get("value"))
            )
            for item in _list(fields.get("filters"))
            if isinstance(item, dict)
        ],
    )


def sent_step(raw: object) -> SavedStep:
    """As `sent_match`, of a row."""
    rows = _list(raw.get("or")) if isinstance(raw, dict) else []
    return SavedStep(
        **dict(sent_match(raw)), or_=[sent_match(row) for row in rows], mode=None, diagnostic=False
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _value_units(value: str) -> int:
    return len(value.encode("utf-8", "surrogatepass")) // _VALUE_BYTES_PER_UNIT


def cost_fault(costs: Iterable[MatchCost], field: str) -> Fault | None:
    """The fault of a definition over the limit. It says which rows to make cheaper first."""
    by_cost = sorted(costs, key=lambda cost: -cost.units)
    total = sum(cost.units for cost in by_cost)
    if total <= MAX_COST:
        return None
    most = ", ".join(f"{cost.place} ({cost.units:,})" for cost in by_cost[:3] if cost.units)
    return Fault(
        field,
        "too_costly",
        f"The filters cost {total:,} in all, and at most {MAX_COST} is allowed. Drop or simplify "
        f"filters that cost {total - MAX_COST:,}; most are in {most}. {_rule()}",
    )
