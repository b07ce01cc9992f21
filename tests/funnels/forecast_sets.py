"""Ten sets of events to measure forecasts on, each with a question. Written before the forecast.

    python -m tests.funnels.forecast_sets    # prints how the reference's forecasts did

All sets but `receipt` are random, each from its seed. A question is about the week that ends now.
The table replays it on each of the 120 days before, as far as the truth is known now.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from math import sin, tau
from pathlib import Path
from random import Random
from typing import Any

from tests.funnels.reference import Event, History
from tests.funnels.reference.forecast import (
    ALL,
    DAY_MS,
    Course,
    Forecaster,
    ForecastQuery,
    courses_of,
)
from tests.funnels.reference.matching import scalar
from tests.funnels.reference.report import read_units, window_seconds

NOW_MS = 1_793_577_600_000
"""Monday, 2 November 2026, 00:00 UTC."""

DAYS = 280
"""Length of a random set: 120 replays, the 60 days before the first of them, and their history."""

REPLAYED_DAYS = 120
PLAIN_QUANTILE = 1.2816
"""Standard deviations on each side that hold 80 % of a normal distribution."""

LOG = Path(__file__).parents[3] / "shared" / "data" / "receipt.csv"
"""Test input that is not ours to publish; it lies beside the repository."""

WEBSITE = "site_1"
Json = Mapping[str, Any]


@dataclass(frozen=True)
class ForecastSet:
    """Events and a question about the units that entered from `start_ms` on.

    about: what is special about the set. make: creates its events.
    """

    name: str
    about: str
    definition: Json
    start_ms: int
    now_ms: int
    make: Callable[[], list[Event]]

    @cached_property
    def events(self) -> list[Event]:
        return self.make()

    @cached_property
    def courses(self) -> list[Course]:
        history = History(tuple(self.events))
        return courses_of(read_units(history, self.definition, [WEBSITE], self.now_ms))

    def question(self, cohort: Sequence[Any] | None = None) -> ForecastQuery:
        """The question about all units, or about those of a cohort by its values."""
        rows = self.definition["steps"]
        return ForecastQuery(
            steps=sum(not row.get("exclude", False) for row in rows),
            window_ms=(window_seconds(self.definition) or 0) * 1000,
            now_ms=self.now_ms,
            start_ms=self.start_ms,
            of_visitors=self.definition["countingUnit"] == "visitor",
            has_exclusions=any(row.get("exclude", False) for row in rows),
            cohort=ALL if cohort is None else tuple(map(scalar, cohort)),
        )

    def forecaster(self, cohort: Sequence[Any] | None = None) -> Forecaster:
        return Forecaster(self.courses, self.question(cohort))


# -- Making units -------------------------------------------------------------------------------

Step = tuple[str, float]
"""The name of an event, and the days from the unit's entry to it."""

Life = Callable[[Random, float], tuple[Json, list[Step]]]
"""Makes the properties of a unit and its events after the entry. The number is its day of entry."""


def attempts(seed: int, per_day: Callable[[int], float], life: Life) -> list[Event]:
    """Return the events of attempts. per_day: how many enter on a day, on average; day 0 is the
    first one.
    """
    random = Random(seed)
    events: list[Event] = []
    for day in range(DAYS):
        mean = per_day(day)
        for _ in range(max(round(random.gauss(mean, mean**0.5)), 0)):
            entered = day + random.random()
            properties, later = life(random, entered)
            unit = f"u-{len(events):06d}"
            for name, days in [("A", 0.0), *later]:
                events.append(event(unit, name, entered + days, properties, len(events)))
    return [each for each in events if each.at_ms <= NOW_MS]


def event(unit: str, name: str, day: float, properties: Json, number: int) -> Event:
    return Event(
        event_id=f"e-{number:06d}",
        website_id=WEBSITE,
        kind="event",
        name=name,
        at_ms=NOW_MS - DAYS * DAY_MS + round(day * DAY_MS),
        visitor_id=unit,
        scope_id="scope",
        properties={"attempt": unit, **properties},
    )


def steps(random: Random, *chances: tuple[str, float, float]) -> list[Step]:
    """Make steps in order, each with its name, its chance and its mean time in days after the step
    before, until one is not made.
    """
    later, at = [], 0.0
    for name, chance, mean in chances:
        if random.random() >= chance:
            break
        at += random.expovariate(1 / mean)
        later.append((name, at))
    return later


def steady(random: Random, _: float) -> tuple[Json, list[Step]]:
    return {}, steps(random, ("B", 0.75, 1), ("C", 0.8, 1.5))


def drifting(random: Random, day: float) -> tuple[Json, list[Step]]:
    """The last step's chance falls by 20 points in 80 days, and rises again in the next 80."""
    fallen = 1 - abs(day % 160 - 80) / 80
    return {}, steps(random, ("B", 0.9, 1), ("C", 0.85 - 0.22 * fallen, 1.5))


def is_weekend(day: float) -> bool:
    return day % 7 >= 5  # day 0 is a Monday


def weekly(random: Random, day: float) -> tuple[Json, list[Step]]:
    """Units that enter at a weekend continue less often, and the last step waits for Monday."""
    later = steps(random, ("B", 0.55 if is_weekend(day) else 0.85, 0.7), ("C", 0.8, 1))
    if len(later) == 2 and is_weekend(day + later[1][1]):
        monday = (day + later[1][1]) // 7 * 7 + 7
        later[1] = ("C", monday - day + random.random() / 3)
    return {}, later


def released(random: Random, day: float) -> tuple[Json, list[Step]]:
    """A release 45 days before the end halves the last step, for all who reach it from then on."""
    later = steps(random, ("B", 0.85, 1), ("C", 0.8, 1.5))
    is_lost = random.random() < 0.5
    if len(later) == 2 and day + later[1][1] >= DAYS - 45 and is_lost:
        later.pop()
    return {}, later


def of_two_kinds(random: Random, day: float) -> tuple[Json, list[Step]]:
    """Phones are quick and seldom complete; desktops are slow and often do. The share of phones
    goes up and down every eight weeks.
    """
    if random.random() < 0.5 + 0.25 * sin(tau * day / 56):
        return {"device": "phone"}, steps(random, ("B", 0.6, 0.1), ("C", 0.5, 0.2))
    return {"device": "desktop"}, steps(random, ("B", 0.9, 1), ("C", 0.85, 2))


def long_tailed(random: Random, _: float) -> tuple[Json, list[Step]]:
    """Half of those who do all steps take a day, a tenth more than seven, and 4 % more than 14."""
    if random.random() >= 0.8:
        return {}, []
    second = random.lognormvariate(-1.5, 1.5)
    if random.random() >= 0.8:
        return {}, [("B", second)]
    return {}, [("B", second), ("C", second + random.lognormvariate(-0.7, 1.9))]


def checkout(random: Random, _: float) -> tuple[Json, list[Step]]:
    """As in the demo: minutes between steps, but one in twelve returns another day."""
    minute = 1 / 1440
    later: list[Step] = []
    if random.random() < 0.18:
        return {}, later
    at = random.uniform(0.3, 4) * minute
    later.append(("B", at))
    if random.random() < 0.08:
        at += random.uniform(20_000, 250_000) / 86_400
    if random.random() < 0.18:
        return {}, later
    at += random.uniform(0.25, 3.4) * minute
    later.append(("C", at))
    if random.random() < 0.14:
        if random.random() < 0.45:
            return {}, later
        at += random.uniform(0.5, 7) * minute
    later.append(("D", at + random.uniform(0.03, 0.4) * minute))
    return {}, later


def visitors() -> list[Event]:
    """Visitors, of whom a third returns once or twice, and who may cancel after the second step."""
    random, events = Random(10), list[Event]()
    for number in range(24 * DAYS):
        day = random.random() * DAYS
        for _ in range(3):
            later = steps(random, ("B", 0.6, 0.8), ("C", 0.75, 1.5))
            if later and random.random() < 0.15:
                later[1:] = [("X", later[0][1] + random.expovariate(1))]
            for name, days in [("A", 0.0), *later]:
                events.append(event(f"v-{number:05d}", name, day + days, {}, len(events)))
            if random.random() >= 1 / 3:
                break
            day += random.expovariate(1 / 3)
    return [each for each in events if each.at_ms <= NOW_MS]


def receipt() -> list[Event]:
    with LOG.open(newline="", encoding="utf-8") as file:
        return [
            Event(
                event_id=f"e-{number:06d}",
                website_id=WEBSITE,
                kind="event",
                name=row["concept:name"],
                at_ms=round(datetime.fromisoformat(row["time:timestamp"]).timestamp() * 1000),
                visitor_id=row["case:concept:name"],
                scope_id="scope",
                properties={"attempt": row["case:concept:name"]},
            )
            for number, row in enumerate(csv.DictReader(file))
        ]


# -- The sets ------------------------------------------------------------------------------------


def funnel(*names: str, days: int = 7, unit: str = "attempt", **more: Any) -> dict[str, Any]:
    """A definition of events in order. A name with a `-` before it excludes units."""
    rows = [
        {"type": "Event", "value": name.removeprefix("-")}
        | ({"exclude": True} if name.startswith("-") else {})
        for name in names
    ]
    of_attempts = {"attemptProperty": "attempt"} if unit == "attempt" else {}
    window = {"conversionWindow": {"value": days, "unit": "day"}}
    return {"countingUnit": unit, **of_attempts, **window, "steps": rows, **more}


WEEK_MS = 7 * DAY_MS
RECEIPT_NOW_MS = 1_326_672_000_000
"""16 January 2012, 00:00 UTC, a week before the log ends."""

THREE = funnel("A", "B", "C")
RECEIPT = funnel(
    "Confirmation of receipt",
    "T02 Check confirmation of receipt",
    "T04 Determine confirmation of receipt",
    "T05 Print and send confirmation of receipt",
    "T06 Determine necessity of stop advice",
    "T10 Determine necessity to stop indication",
    days=14,
)


def simulated(name: str, about: str, make: Callable[[], list[Event]], of: Json) -> ForecastSet:
    return ForecastSet(name, about, of, NOW_MS - WEEK_MS, NOW_MS, make)


SETS = (
    simulated(
        "demo",
        "checkouts of minutes, one in twelve with a pause",
        lambda: attempts(1, lambda _: 55, checkout),
        funnel("A", "B", "C", "D"),
    ),
    ForecastSet(
        "receipt",
        "receipt.csv, six steps, two weeks, 14 days",
        RECEIPT,
        RECEIPT_NOW_MS - 14 * DAY_MS,
        RECEIPT_NOW_MS,
        receipt,
    ),
    simulated("steady", "constant chances", lambda: attempts(2, lambda _: 40, steady), THREE),
    simulated(
        "drifting",
        "20 points down in 80 days, then up again",
        lambda: attempts(3, lambda _: 40, drifting),
        THREE,
    ),
    simulated(
        "weekly",
        "weekends with fewer units and no last steps",
        lambda: attempts(4, lambda day: 15 if is_weekend(day) else 50, weekly),
        THREE,
    ),
    simulated("few units", "four a day", lambda: attempts(5, lambda _: 4, steady), THREE),
    simulated(
        "release",
        "the last step halved 45 days ago",
        lambda: attempts(6, lambda _: 40, released),
        THREE,
    ),
    simulated(
        "two populations",
        "quick phones and slow desktops, in changing shares",
        lambda: attempts(7, lambda _: 40, of_two_kinds),
        funnel("A", "B", "C", breakdownProperties=["device"]),
    ),
    simulated(
        "long tail",
        "half take a day, 4 % more than 14 days",
        lambda: attempts(8, lambda _: 40, long_tailed),
        funnel("A", "B", "C", days=14),
    ),
    simulated(
        "exclusions",
        "returning visitors who may cancel, 5 days",
        visitors,
        funnel("A", "B", "-X", "C", days=5, unit="visitor"),
    ),
)


# -- The table -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Figures:
    """How forecasts of a set did. Errors are means in points. units: eligible ones of a replay, on
    average. unripe: replays with a third or more of them open. inside: share of the replays that
    had an interval. plain_inside: share inside the plain spread alone.
    """

    replays: int
    units: float
    error: float
    unripe: int
    error_unripe: float | None
    naive_unripe: float | None
    inside: float | None
    plain_inside: float


def measure(forecast_set: ForecastSet, days: int = REPLAYED_DAYS) -> Figures:
    """Replay a set on each of the days before its question."""
    forecaster = forecast_set.forecaster()
    replays = forecaster.replays(0, days)
    unripe = [replay for replay in replays if 3 * replay.estimate.open >= replay.estimate.eligible]
    held = forecaster.held(replays)
    plain = [replay.scaled_error <= PLAIN_QUANTILE for replay in replays]
    return Figures(
        len(replays),
        _mean([replay.estimate.eligible for replay in replays]) or 0.0,
        100 * (_mean([replay.error for replay in replays]) or 0.0),
        len(unripe),
        _points([replay.error for replay in unripe]),
        _points([abs(replay.truth - replay.estimate.so_far) for replay in unripe]),
        _mean(held),
        _mean(plain) or 0.0,
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _points(values: Sequence[float]) -> float | None:
    mean = _mean(values)
    return None if mean is None else 100 * mean


def table() -> str:
    """All figures as a Markdown table."""
    head = (
        *("set", "units", "replays", "mean error", "a third open", "mean error there"),
        *("of the rate so far", "inside", "plain spread"),
    )
    lines = [head, ["---", *["---:"] * (len(head) - 1)]]
    for each in SETS:
        if each.name != "receipt" or LOG.exists():
            lines.append([each.name, *cells(measure(each))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cells(figures: Figures) -> list[str]:
    return [
        f"{figures.units:.0f}",
        f"{figures.replays}",
        f"{figures.error:.1f}",
        f"{figures.unripe}",
        _text(figures.error_unripe, 1),
        _text(figures.naive_unripe, 1),
        _text(figures.inside, 2),
        f"{figures.plain_inside:.2f}",
    ]


def _text(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


if __name__ == "__main__":
    print(table())
