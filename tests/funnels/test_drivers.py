"""Drivers of a loss: what goes with it, on data with known effects and on data without any."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from random import Random
from typing import Any

import numpy as np
import pytest

from penstock.funnels.drivers import Effect, Group, Key, property_groups, rank
from tests.cases import cases, full_except
from tests.conftest import ShiftedClock
from tests.funnels.answers import fields
from tests.funnels.scenario import DAY_S, EVENT, HOUR_S, Json, Scene, column, pick, where

pytestmark = pytest.mark.usefixtures("warehouse")

SETS, MAX_FALSE_ALARMS = 1_000, 65
SOME_SETS, MAX_OF_SOME = 250, 16
MISSING = -1
"""The value of a trait that a visitor lacks."""


def simulated_rows(
    random: np.random.Generator,
    units: int,
    values: list[int],
    effect: float = 0.0,
    traits: Sequence[int] = (),
) -> list[Json]:
    """The rows of properties and traits, as the engine counts them, of units of which about 40% are
    lost.

    values: number of values of each property. effect: added to the loss of units with the first
    value of the first property. traits: number of values of each trait. About three units have the
    same visitor and traits, and a third of the visitors lack a trait.
    """
    columns = {f"p{at}": random.integers(count, size=units) for at, count in enumerate(values)}
    visitors = random.integers(units // 3, size=units)
    for at, count in enumerate(traits):
        of_visitor = random.integers(count, size=units // 3)
        of_visitor[random.random(units // 3) < 1 / 3] = MISSING
        columns[f"$trait.t{at}"] = of_visitor[visitors]
    risk = np.full(units, 0.4)
    if effect:
        risk[columns["p0"] == 0] += effect
    lost = random.random(units) < risk
    rows = [{"name": "", "value": "", "units": units, "lost": int(lost.sum()), "at_risk": units}]
    for name, values_of in columns.items():
        present = values_of != MISSING
        of_present = {"units": int(present.sum()), "lost": int(lost[present].sum())}
        rows.append({"name": name, "value": "", **of_present})
        for value, count in Counter(values_of[present].tolist()).most_common(10):
            of_value = int(lost[values_of == value].sum())
            rows.append({"name": name, "value": str(value), "units": count, "lost": of_value})
    return rows


def effects_in(rows: list[Json]) -> list[Effect[Key]]:
    return rank(property_groups(rows, set()))


def simulated_sets(effect: float) -> Iterator[list[Effect[Key]]]:
    random = np.random.default_rng(20_261_127)
    for _ in range(SETS):
        units = int(random.choice([100, 300, 1_000, 5_000]))
        values, traits = (
            random.integers(2, 13, size=random.integers(1, 16)).tolist() for _ in range(2)
        )
        yield effects_in(simulated_rows(random, units, values, effect, traits))


@pytest.mark.parametrize(
    ("sets", "limit"),
    [
        (SOME_SETS, MAX_OF_SOME),
        pytest.param(SETS, MAX_FALSE_ALARMS, marks=pytest.mark.full("more simulated sets")),
    ],
)
def test_of_1000_sets_without_effect_at_most_65_report_one(sets: int, limit: int) -> None:
    chosen_sets = islice(simulated_sets(0.0), sets)
    alarms = sum(any(effect.comparison.is_clear for effect in effects) for effects in chosen_sets)
    assert 0 < alarms <= limit


def test_an_effect_of_20_points_is_found_first() -> None:
    random = np.random.default_rng(1)
    first = Counter[Any]()
    for _ in range(100):
        effects = effects_in(simulated_rows(random, 2_000, [4, 3, 6, 10], effect=0.2))
        first[effects[0].group.key if effects[0].comparison.is_clear else None] += 1
    assert first["p0", 0] >= 99


def test_an_interval_holds_the_true_effect_in_95_of_100_sets() -> None:
    random, held = np.random.default_rng(2), 0
    for _ in range(400):
        effects = effects_in(simulated_rows(random, 2_000, [4], effect=0.2))
        [low, high] = next(
            item.comparison.interval for item in effects if item.group.key == ("p0", 0)
        )
        held += low <= 0.2 <= high
    assert 0.92 <= held / 400 <= 0.98


def test_clear_effects_come_first_then_the_largest_number_of_units() -> None:
    groups = [
        Group("small and strong", lost=60, units=60, other_lost=4_000, other_units=9_940),
        Group("large and weaker", lost=2_300, units=5_000, other_lost=1_760, other_units=5_000),
        Group("unclear", lost=1_230, units=3_000, other_lost=2_830, other_units=7_000),
        Group("too small", lost=29, units=29, other_lost=4_031, other_units=9_971),
    ]
    assert [(effect.group.key, effect.comparison.is_clear) for effect in rank(groups)] == [
        ("large and weaker", True),
        ("small and strong", True),
        ("unclear", False),
    ]


def rows_of(**values: tuple[int, int]) -> list[Json]:
    """The rows of one property `p`. values: units and lost by JSON text; `all` for all units."""
    (units, lost), present = values.pop("all"), values.pop("present", None)
    total = {"name": "", "value": "", "units": units, "lost": lost}
    has = present or (units, lost)
    rows = [total, {"name": "p", "value": "", "units": has[0], "lost": has[1]}]
    return rows + [
        {"name": "p", "value": value, "units": of[0], "lost": of[1]} for value, of in values.items()
    ]


def keys(rows: list[Json]) -> list[Any]:
    return [group.key for group in property_groups(rows, {"hidden"})]


def test_of_two_values_that_cover_all_only_the_worse_is_tested() -> None:
    assert keys(rows_of(all=(200, 100), **{'"a"': (100, 20), '"b"': (100, 80)})) == [("p", "b")]
    missing = rows_of(all=(200, 100), present=(100, 20), **{'"a"': (100, 20)})
    assert keys(missing) == [("p", None)]
    three = {'"a"': (100, 50), '"b"': (100, 60), '"c"': (100, 70)}
    assert keys(rows_of(all=(300, 180), **three)) == [("p", "a"), ("p", "b"), ("p", "c")]


def test_spellings_of_one_number_are_one_value_and_types_are_kept_apart() -> None:
    rows = rows_of(
        all=(400, 0), **{"1": (100, 0), "1.0": (100, 0), '"1"': (100, 0), "true": (100, 0)}
    )
    groups = list(property_groups(rows, set()))
    assert [(group.key.value, group.units) for group in groups] == [  # type: ignore[union-attr]
        (1, 200),
        ("1", 100),
        (True, 100),
    ]


# Over HTTP


def read_drivers(scene: Scene, funnel_id: str, **query: Any) -> Json:
    return scene.report(funnel_id, "drivers", **{"step": 1, **query})


Attempt = str | tuple[str, Json]
"""The story of an attempt, such as `0/A 20/help 60/B`, and the properties of its events named A."""


def send(scene: Scene, attempts: Iterable[Attempt], first: int = 0) -> None:
    """Track attempts that start every seven seconds, each of its own visitor.

    first: number of the first attempt, which determines its time and its ID.
    """
    items: list[Json] = []
    for number, attempt in enumerate(attempts, start=first):
        text, entry = (attempt, {}) if isinstance(attempt, str) else attempt
        for seconds, name, of_visitor in EVENT.findall(text):
            own = {} if of_visitor else {"attempt": f"a{number}"}
            own |= entry if name == "A" else {}
            items.append(scene.item(number * 7 + float(seconds), name, f"v{number}", **own))
    for start in range(0, len(items), 400):
        scene.track(items[start : start + 400])


def clear(record: Json) -> list[Any]:
    return [
        (row["property"], row["value"]) if row["kind"] == "property" else row["name"]
        for row in record["data"]
        if row["clear"]
    ]


def test_properties_and_events_with_known_effects_are_found(scene: Scene) -> None:
    random, attempts = Random(3), []
    for _ in range(600):
        plan = random.choice(["basic", "pro", "max"])
        failed = random.random() < 0.2
        lost = random.random() < (0.9 if failed else 0.6 if plan == "basic" else 0.2)
        entry = {"plan": plan, "colour": random.choice(["red", "blue", "green", "grey"])}
        text = "0/A" + (" 5/failed" if failed else "") + (" 1800/chat" if lost else " 60/B")
        attempts.append((text, entry))
    send(scene, attempts)
    funnel_id = scene.attempts("A", "B")
    record = read_drivers(scene, funnel_id)
    assert clear(record)[0] == ("plan", "basic")
    assert "failed" in clear(record)
    assert not any(
        row["property"] in ("colour", "attempt") for row in record["data"] if row["clear"]
    )
    first = next(row for row in record["data"] if row["value"] == "basic")
    aggregate = scene.results(funnel_id)["aggregate"]
    assert pick(record, "atRisk", "examined") == (600, 600)
    assert record["lost"] == aggregate["droppedOff"] == first["lost"] + first["otherLost"]
    assert first["units"] + first["otherUnits"] == 600
    report = scene.results(funnel_id, filters=[first["filter"]])
    assert report["aggregate"]["entered"] == first["units"]
    assert first["difference"] > 0.2
    assert first["differenceInterval"]["lower"] > 0
    assert record["withinMinutes"] == 1
    assert "chat" not in column(record["data"], "name")  # long after the step


@pytest.mark.slow("sends 350 requests")
def test_a_trait_of_the_visitors_is_a_driver_as_it_is_now(scene: Scene) -> None:
    lost, won = "0/A", "0/A 60/B"
    send(scene, [won, *[lost] * 6] * 10 + [lost, *[won] * 6] * 10)
    funnel_id = scene.attempts("A", "B")
    assert clear(read_drivers(scene, funnel_id)) == []
    for number in range(140):
        traits = {"tier": "gold" if number < 70 else 2, "staff": False}
        scene.identify(f"u{number}", f"v{number}", traits=traits)
    record = read_drivers(scene, funnel_id)
    [first] = [row for row in record["data"] if row["clear"]]
    assert pick(first, "property", "value", "units") == ("$trait.tier", "gold", 70)
    assert pick(first, "lost", "otherLost") == (60, 10)
    report = scene.results(funnel_id, filters=[first["filter"]])
    assert report["aggregate"]["entered"] == 70
    for number in range(70):
        scene.identify(f"u{number}", f"v{number}", traits={"tier": 2, "staff": False})
    assert clear(read_drivers(scene, funnel_id)) == []


def test_an_event_that_only_takes_time_is_no_driver(scene: Scene) -> None:
    """Lost units stay an hour, so they have more of an event that happens at random to all."""
    random, attempts = Random(4), []
    for _ in range(400):
        end = HOUR_S if random.random() < 0.5 else random.randint(10, 600)
        ticks = [at for at in range(1, HOUR_S, 60) if at < end and random.random() < 0.1]
        text = " ".join(["0/A", *(f"{at}/tick" for at in ticks)])
        attempts.append(text + (f" {end}/B" if end < HOUR_S else ""))
    send(scene, attempts)
    record = read_drivers(scene, scene.attempts("A", "B"))
    assert "tick" in column(record["data"], "name")
    assert clear(record) == []


def test_units_that_reach_a_step_at_the_end_of_their_window_are_not_compared_by_events(
    scene: Scene,
) -> None:
    """Half of all units have a chat five minutes after step 2, but the window of those that are
    lost ends before.
    """
    late = DAY_S - 60
    lost, won = f"0/A {late}/B", "0/A 60/B 1260/C"
    send(scene, [lost, f"{lost} {late + 300}/chat"] * 40 + [won, f"{won} 360/chat"] * 40)
    funnel_id = scene.attempts("A", "B", "C", conversionWindowSeconds=DAY_S)
    record = read_drivers(scene, funnel_id, step=2)
    assert pick(record, "withinMinutes", "atRisk", "lost") == (20, 160, 80)
    assert clear(record) == []


def test_only_settled_units_of_the_cohort_and_period_count(
    scene: Scene, clock: ShiftedClock
) -> None:
    attempts = [
        (story, {"plan": plan, "late": story == "0/A"})
        for story in ("0/A", "0/A 10/B")
        for plan in ("basic", "pro")
    ]
    send(scene, attempts * 20)
    funnel_id = scene.attempts("A", "B", breakdownProperties=["plan"])
    everyone = read_drivers(scene, funnel_id)
    assert pick(everyone, "atRisk", "lost") == (80, 40)
    assert clear(everyone) == [("late", True)]
    pro = read_drivers(scene, funnel_id, cohort={"plan": "pro"})
    assert pick(pro, "atRisk", "lost") == (40, 20)
    assert pro["tested"] == 0  # 20 units on each side
    assert read_drivers(scene, funnel_id, **scene.period(0, 70))["atRisk"] == 10
    scene.start_ms = clock() - 7_607_000
    send(scene, ["0/A", "0/A 1/B"], first=1000)
    assert read_drivers(scene, funnel_id)["atRisk"] == 80


def test_later_steps_and_visitor_funnels_have_drivers(scene: Scene) -> None:
    won, lost = ("0/A 10/B 40/C", {"plan": "pro"}), ("0/A 10/B 15/slow", {"plan": "basic"})
    send(scene, [won, lost] * 60 + ["0/A"] * 40)
    for funnel_id in (
        scene.attempts("A", "B", "C"),
        scene.funnel("A", "B", "C", conversionWindowSeconds=HOUR_S),
    ):
        record = read_drivers(scene, funnel_id, step=2)
        assert pick(record, "atRisk", "lost") == (120, 60)
        assert clear(record) == [("plan", "basic"), "slow"]
        assert record["data"][1]["eventType"] == "Event"


def test_events_of_the_attempts_visitors_count_if_asked(scene: Scene) -> None:
    send(scene, ["0/A 60/B", "0/A 5/help(visitor)"] * 60)
    funnel_id = scene.attempts("A", "B")
    assert clear(read_drivers(scene, funnel_id)) == []
    assert clear(read_drivers(scene, funnel_id, of="visitor")) == ["help"]


def listed(scene: Scene, funnel_id: str, kind: str = "Event", **query: Any) -> Json:
    """The first page of the units with an event after step 1."""
    return scene.report(funnel_id, "units", **{"step": 1, "eventType": kind, **query})


def total(scene: Scene, funnel_id: str, **query: Any) -> int:
    count: int = listed(scene, funnel_id, **query)["total"]
    return count


@pytest.fixture
def helped(scene: Scene) -> str:
    """A funnel with 120 attempts, half of which are lost. 75 have `help`, and it is an event of the
    visitors of 15 more. Five other attempts continue at once, and five are not settled.
    """
    helps = ("5/help", "5/help", "", "5/help(visitor)", "5/help", "5/help", "5/help", "")
    attempts = [
        (f"0/A {help_} 900/late" + ("" if number % 2 else " 60/B"), {"odd": number % 2})
        for number, help_ in enumerate(helps)
    ]
    funnel_id = scene.attempts("A", "B")
    send(scene, [*attempts * 15, *["0/A 1/help 2/B"] * 5])
    start_ms = scene.start_ms
    scene.start_ms += (99 * 24 + 23) * HOUR_S * 1000 + 1_800_000
    send(scene, ["0/A 5/help"] * 5, first=200)
    scene.start_ms = start_ms
    return funnel_id


def the_units_of_an_event_are_listed(scene: Scene, helped: str, of: str = "unit") -> None:
    rows = read_drivers(scene, helped, of=of)["data"]
    [row] = [row for row in rows if row["name"] == "help"]
    query = {"eventName": "help", "of": of}
    lost = {**query, "outcome": "droppedOff"}
    assert total(scene, helped, **query) == row["units"]
    assert total(scene, helped, **lost) == row["lost"]
    assert total(scene, helped, **query, hasEvent=False) == row["otherUnits"]
    assert total(scene, helped, **lost, hasEvent=False) == row["otherLost"]
    assert (row["units"], row["otherUnits"]) == ((75, 45) if of == "unit" else (90, 30))


def the_units_of_an_event_meet_the_other_conditions_too(scene: Scene, helped: str) -> None:
    odd = [where("odd", value="1")]
    assert total(scene, helped, eventName="late") == 0  # after the median time
    assert total(scene, helped, eventName="help", kind="Pageview") == 0
    page = listed(scene, helped, eventName="help", filters=odd, pageSize=100)
    assert page["total"] == 0  # none of them continued, so there is no time to compare
    assert page["data"] == []
    later = scene.period(0, 70)
    names = {
        unit["unit"]
        for sort, order in (("entry", "asc"), ("completion", "desc"), ("lastActivity", "asc"))
        for unit in listed(scene, helped, eventName="help", sort=sort, order=order, **later)["data"]
    }
    assert names == {"a0", "a1", "a4", "a5", "a6", "a8", "a9"}


def pages_of_the_units_of_an_event_have_each_of_them_once(scene: Scene, helped: str) -> None:
    query = {"step": 1, "eventType": "Event", "eventName": "help"}
    pages = list(scene.pages(helped, pageSize=30, **query))
    seen = [unit["unit"] for page in pages for unit in page["data"]]
    assert len(seen) == len(set(seen)) == pages[-1]["total"] == 75


@pytest.mark.full("the list by events of visitors, which random funnels also compare")
def test_the_units_of_an_event_of_their_visitors_are_listed(scene: Scene, helped: str) -> None:
    the_units_of_an_event_are_listed(scene, helped, "visitor")


@pytest.mark.slow("asks for fifteen lists")
def test_lists_of_units_by_an_event(scene: Scene, helped: str, subtests: pytest.Subtests) -> None:
    for rule in (
        the_units_of_an_event_are_listed,
        the_units_of_an_event_meet_the_other_conditions_too,
        pages_of_the_units_of_an_event_have_each_of_them_once,
    ):
        with subtests.test(rule.__name__):
            rule(scene, helped)


@pytest.mark.parametrize(
    ("kind", "of"),
    [
        ("list", "unit"),
        pytest.param("rule", "visitor", marks=pytest.mark.full("rules, as lists")),
    ],
)
def test_a_file_and_a_cohort_have_the_units_of_an_event(
    scene: Scene, helped: str, kind: str, of: str
) -> None:
    query = {"step": "1", "eventType": "Event", "eventName": "help", "of": of, "hasEvent": "false"}
    units = total(scene, helped, **query)
    assert len(scene.table(helped, "export/units", **query)) == units
    body = {"name": "No help", "kind": kind, "funnelId": helped, "parameters": query}
    answer = scene.client.post("/api/cohorts", json=body)
    assert answer.status_code == 201, answer.text
    report = scene.results(helped, filters=[where("$cohort", value=answer.json()["id"])])
    assert report["aggregate"]["entered"] == units > 0


@pytest.mark.parametrize("more", full_except([{}], ({}, {"repeat": True}), "runs, as visitors"))
def test_visitors_and_runs_are_listed_by_an_event(scene: Scene, more: Json) -> None:
    send(scene, ["0/A 60/B", "0/A 5/help"] * 40)
    funnel_id = scene.funnel("A", "B", conversionWindowSeconds=HOUR_S, **more)
    [row] = [row for row in read_drivers(scene, funnel_id)["data"] if row["name"] == "help"]
    assert total(scene, funnel_id, eventName="help") == row["units"] == 40
    assert total(scene, funnel_id, eventName="help", hasEvent=False) == 40


def test_without_a_window_or_a_continuation_no_unit_is_listed_by_an_event(scene: Scene) -> None:
    scene.story("0/A 5/help 60/B")
    for funnel_id in (
        scene.funnel("A", "B", conversionWindowSeconds=None),
        scene.attempts("A", "C"),
    ):
        for has_event in (True, False):
            assert total(scene, funnel_id, eventName="help", hasEvent=has_event) == 0


@cases(
    ("query", "expected"),
    [
        ({"eventName": "help", "eventType": "Event"}, ["step"]),
        ({"eventName": "help", "eventType": "Event", "step": 2}, ["step"]),
        ({"eventName": "help", "eventType": "Event", "step": 20}, ["step"]),
        ({"eventName": "help", "step": 1}, ["eventType"]),
        ({"eventName": "help"}, ["eventType", "step"]),
        ({"eventName": "help", "eventType": "event", "step": 1}, ["eventType"]),
        ({"eventName": "x" * 2001, "eventType": "Event", "step": 1}, ["eventName"]),
        ({"eventName": "a\0b", "eventType": "Event", "step": 1}, ["eventName"]),
        ({"eventType": "Event", "hasEvent": "false", "step": 1}, ["eventType", "hasEvent"]),
        (
            {"eventName": "help", "eventType": "Event", "step": 1, "hasEvent": "perhaps"},
            ["hasEvent"],
        ),
        ({"eventName": "help", "eventType": "Event", "step": 1, "of": "me"}, ["of"]),
    ],
)
def test_a_wrong_event_of_a_list_is_refused(scene: Scene, query: Json, expected: list[str]) -> None:
    funnel_id = scene.attempts("A", "B")
    for path in ("units", "export/units"):
        assert sorted(fields(scene.request(funnel_id, path, **query))) == expected


@cases(
    "name",
    full_except(["' OR 1=1 --"], ("' OR 1=1 --", "%", "\\", "{x:String}", "🙂"), "more names"),
)
def test_a_name_is_only_a_value(scene: Scene, helped: str, name: str) -> None:
    assert total(scene, helped, eventName=name) == 0


def test_tied_entries_count_with_the_values_on_which_they_agree(scene: Scene) -> None:
    send(scene, [("0/A 10/B", {"plan": "pro"}), ("0/A", {"plan": "basic"})] * 40)
    send(scene, ["", ("0/A", {"plan": "max"})] * 40)
    record = read_drivers(scene, scene.attempts("A", "B", sequenceProperty=None))
    assert clear(record) == [("plan", None)]


def test_without_a_window_or_units_nothing_is_found(scene: Scene) -> None:
    scene.story("0/A")
    for funnel_id in (
        scene.funnel("A", "B", conversionWindowSeconds=None),
        scene.funnel("X", "Y"),
    ):
        record = read_drivers(scene, funnel_id)
        assert pick(record, "atRisk", "tested", "data") == (0, 0, [])


@cases(
    ("query", "field"),
    [
        ({"step": 2}, "step"),
        ({"step": 0}, "step"),
        ({"step": ""}, "step"),
        ({"step": 1, "of": "me"}, "of"),
        ({"step": 1, "page": 1}, "page"),
    ],
)
def test_a_wrong_parameter_is_refused(scene: Scene, query: Json, field: str) -> None:
    answer = scene.request(scene.attempts("A", "B"), "drivers", **query)
    assert fields(answer) == [field]
