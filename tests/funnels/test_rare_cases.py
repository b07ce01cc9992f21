"""Cases that random histories hardly ever contain, against the reference evaluation."""

from typing import Any

import pytest

from penstock.base.paging import Page
from penstock.funnels.statements.query import Strategy
from penstock.warehouse.client import Warehouse
from tests.cases import full_except
from tests.funnels import reference
from tests.funnels.definitions import resolved
from tests.funnels.strategies import START_MS, Case
from tests.funnels.test_property import assert_agreement

strategies = pytest.mark.parametrize(
    "strategy",
    full_except(
        [Strategy.GENERAL], Strategy, "other ways to count, which random funnels also choose"
    ),
)


def case_of(
    funnel: dict[str, Any], events: tuple[reference.Event, ...], at_ms: int, strategy: Strategy
) -> Case:
    """Return a case of a funnel on one website, without merges and parameters."""
    return Case(
        funnel,
        {},
        resolved(funnel),
        reference.History(events),
        ("shop",),
        at_ms,
        None,
        None,
        cohort={},
        page=Page(),
        inserts=1,
        strategy=strategy,
    )


def steps_of(names: str) -> list[dict[str, Any]]:
    """Return steps of events with these names. A minus sign makes an exclusion row."""
    return [
        {"type": "Event", "value": name.removeprefix("-")}
        | ({"exclude": True} if name.startswith("-") else {})
        for name in names.split()
    ]


def event_at(
    event_id: str, name: str, ms: int, *, visitor: str = "ann", **properties: Any
) -> reference.Event:
    """Return an event of a visitor, in milliseconds from the start."""
    return reference.Event(
        event_id, "shop", "event", name, START_MS + ms, visitor, "people", properties=properties
    )


@strategies
@pytest.mark.parametrize(
    "early", [[], [(-1, "A", 0, "x")]], ids=["fresh", "one part filled before"]
)
def test_two_entries_of_a_group_in_one_millisecond(
    warehouse: Warehouse, strategy: Strategy, early: list[tuple[int, str, int, str]]
) -> None:
    """The second entry leads further and counts, though events of the first are among its own."""
    story = [
        *early,
        (0, "A", 1, "x"),
        (0, "B", 2, "y"),
        (0, "A", None, "y"),
        (0, "B", None, "y"),
        (1, "C", 1, "z"),
    ]
    events = tuple(
        event_at(f"evt_{index}", name, ms, n=number, plan=value)
        for index, (ms, name, number, value) in enumerate(story)
    )
    a, b, c = ({"type": "Event", "value": name} for name in "ABC")
    funnel = {
        "conversionWindowSeconds": 3600,
        "sequenceProperty": "n",
        "breakdownProperties": ["plan"],
        "steps": [{**a, "mode": "all_of", "or": [b]}, c],
    }
    assert_agreement(warehouse, case_of(funnel, events, START_MS + 10_000, strategy))


@strategies
@pytest.mark.parametrize(
    ("inside", "outside"),
    [("B", "C"), ("B", "X"), ("X", "B"), ("X", "X"), ("B", "B")],
    ids=["next step", "exclusion", "excluded step", "two exclusions", "same step"],
)
@pytest.mark.parametrize(
    "changes",
    full_except([{}], [{}, {"equalTimes": "inStepOrder"}], "the same stories in an assumed order"),
    ids=["proven", "assumed"],
)
def test_nothing_after_the_window_counts_though_its_second_began_inside(
    warehouse: Warehouse, strategy: Strategy, inside: str, outside: str, changes: dict[str, Any]
) -> None:
    """Both events state the second in which the window ends. The later one has the lower ID, so it
    is read first.
    """
    window_ms = 3_600_000
    story = [("evt_2", "A", 0), ("evt_1", inside, window_ms), ("evt_0", outside, window_ms + 7)]
    events = tuple(
        reference.Event(
            event_id,
            "shop",
            "transaction",
            name,
            START_MS + ms,
            "ann",
            "people",
            source="provider",
            verified=True,
            properties={"provider": "stripe"},
        )
        for event_id, name, ms in story
    )
    steps: list[dict[str, Any]] = [
        {"type": "Transaction", "value": name, **({"exclude": True} if name == "X" else {})}
        for name in "AXBC"
    ]
    funnel = {"conversionWindowSeconds": window_ms // 1000, "steps": steps, **changes}
    assert_agreement(warehouse, case_of(funnel, events, START_MS + 2 * window_ms, strategy))


@strategies
def test_the_median_of_durations_of_many_years(warehouse: Warehouse, strategy: Strategy) -> None:
    """A minute has no exact binary fraction, so only milliseconds have an exact median."""
    years_ms = 12 * 366 * 86_400_000
    story = [("ann", "A", 0), ("ann", "B", years_ms), ("bob", "A", 0), ("bob", "B", years_ms + 4)]
    events = tuple(
        event_at(f"evt_{index}", name, ms, visitor=visitor)
        for index, (visitor, name, ms) in enumerate(story)
    )
    funnel = {"conversionWindowSeconds": None, "steps": steps_of("A B")}
    assert_agreement(warehouse, case_of(funnel, events, START_MS + 3 * years_ms, strategy))


@strategies
@pytest.mark.parametrize(
    ("steps", "story"),
    [
        ("A W Y -X W", [("A", 0, None), ("Y", 1, 5), ("W", 1, None), ("X", 1, 6)]),
        (
            "A W Y -X W",
            [
                *[("A", 0, None), ("Y", 1, 5), ("W", 1, None), ("X", 1, 6)],
                *[("Z", 5, None), ("W", 9, None)],
            ],
        ),
        (
            "A -Q B Y -X Q",
            [("A", 1, 1), ("Q", 1, None), ("B", 1, None), ("Y", 1, 5), ("X", 1, 6)],
        ),
        (
            "A W -X V Y -X P",
            [
                *[("A", 0, None), ("Y", 1, 5), ("P", 1, 6), ("X", 1, 6)],
                *[("V", 1, None), ("W", 1, None)],
            ],
        ),
    ],
    ids=["used before", "used before, more events", "refused before", "refused, then excludes"],
)
def test_an_exclusion_beside_events_that_step_order_has_read_before(
    warehouse: Warehouse, strategy: Strategy, steps: str, story: list[tuple[str, int, int | None]]
) -> None:
    """Events of one time are read again. What was used or refused before is no further tie, and
    what was refused may still exclude.
    """
    events = tuple(
        event_at(f"evt_{index}", name, ms, n=number)
        for index, (name, ms, number) in enumerate(story)
    )
    funnel = {
        "conversionWindowSeconds": 3600,
        "sequenceProperty": "n",
        "equalTimes": "inStepOrder",
        "steps": steps_of(steps),
    }
    assert_agreement(warehouse, case_of(funnel, events, START_MS + 10_000, strategy))


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("after_ms", [-1, 0, 1])
def test_a_window_is_open_until_its_end_inclusive(
    warehouse: Warehouse, strategy: Strategy, after_ms: int
) -> None:
    """Two visitors, one of whom reached the last step but one at the end of the window."""
    hour_ms = 3_600_000
    events = (
        event_at("e1", "A", 0),
        event_at("e2", "A", 0, visitor="bob"),
        event_at("e3", "B", hour_ms, visitor="bob"),
    )
    funnel = {"steps": steps_of("A B C"), "conversionWindowSeconds": hour_ms // 1000}
    case = case_of(funnel, events, START_MS + hour_ms + after_ms, strategy)
    assert_agreement(warehouse, case)
