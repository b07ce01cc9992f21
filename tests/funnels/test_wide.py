"""Funnels at the documented limits have 30 rows, 20 required steps and dozens of `or` rows.

They have more matches than a machine word has bits.
"""

from itertools import product
from typing import Any

import pytest

from penstock.funnels.statements.query import QueryParams, Strategy
from penstock.warehouse.client import Warehouse
from tests.cases import full_except
from tests.funnels import reference
from tests.funnels.definitions import Json, resolved
from tests.funnels.reference import Event, History
from tests.funnels.reports import evaluate
from tests.funnels.seed import isolated, store

BEGAN_MS = 1_700_000_000_000
UNITS = {
    "attempts": {
        "countingUnit": "attempt",
        "attemptProperty": "attempt",
        "sequenceProperty": "n",
        "breakdownProperties": ["plan"],
    },
    "visitors": {},
    "visitors with numbers": {"sequenceProperty": "n"},
}


def row(*names: str, **more: Any) -> Json:
    first, *others = ({"type": "Event", "value": name} for name in names)
    return {**first, "or": others, **more}


STEPS = [row(*(f"step {k}.{option}" for option in range(8))) for k in range(20)]
DIAGNOSTICS = [
    row(*(f"seen {k}.{option}" for option in range(9)), diagnostic=True) for k in range(10)
]
GROUP = row(*(f"step {k}.{k % 5}" for k in range(1, 12)), mode="all_of")
FUNNELS = {
    "20 steps of 8 options, 10 diagnostic rows": [*STEPS, *DIAGNOSTICS],
    "a group of 11": [STEPS[0], GROUP, *STEPS[12:], *DIAGNOSTICS],
}


@pytest.mark.parametrize(
    ("rows", "unit", "strategy"),
    full_except(
        [
            ("20 steps of 8 options, 10 diagnostic rows", "attempts", Strategy.PACKED),
            ("a group of 11", "visitors with numbers", Strategy.GENERAL),
        ],
        product(FUNNELS, UNITS, (Strategy.GENERAL, Strategy.PACKED)),
        "all combinations of the largest statements",
    ),
)
@pytest.mark.slow("the engine analyses the largest statements")
def test_a_funnel_of_the_maximum_size_is_counted_correctly(
    warehouse: Warehouse, rows: str, unit: str, strategy: Strategy
) -> None:
    funnel = {"conversionWindowSeconds": 604_800, "steps": FUNNELS[rows], **UNITS[unit]}
    history, mark = isolated(
        History((*path("ann", steps=20), *path("ben", steps=7), unrelated_event("ann")))
    )
    store(warehouse, history)
    websites = (mark + "shop",)
    expected = reference.evaluate(
        history, funnel, website_ids=websites, evaluated_at_ms=BEGAN_MS + 10**9
    )
    params = QueryParams(websites, websites, None, None, BEGAN_MS + 10**9)  # type: ignore[arg-type]
    report = evaluate(warehouse, resolved(funnel), params, strategy=strategy)
    assert {part: report[part] for part in expected} == expected
    assert (report["aggregate"]["entered"], report["aggregate"]["completed"]) == (2, 1)


def path(who: str, steps: int) -> list[Event]:
    return [event(who, f"step {k}.{k % 5}", k, {"n": k}) for k in range(steps)]


def unrelated_event(who: str) -> Event:
    return event(who, "seen 3.0", 19, {})


def event(who: str, name: str, second: int, more: dict[str, int]) -> Event:
    properties = {"attempt": who, "plan": "pro", **more}
    at_ms = BEGAN_MS + second * 1000
    return Event(
        f"evt_{who}_{name}", "shop", "event", name, at_ms, who, "shop", properties=properties
    )
