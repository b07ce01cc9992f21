"""The service's forecasts over HTTP, compared with those of the reference."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from time import sleep
from typing import Any

import pytest

from penstock.base.clock import iso, parse_time
from penstock.funnels.forecasts import service
from penstock.funnels.forecasts.model import DayRecord
from penstock.warehouse.client import Warehouse
from tests.conftest import ShiftedClock
from tests.funnels import seed
from tests.funnels.forecast_sets import DAYS, NOW_MS, SETS, ForecastSet, Step, event, funnel
from tests.funnels.reference import Event, History
from tests.funnels.reference.forecast import DAY_MS, Forecaster
from tests.funnels.scenario import HOUR_S, Json, Scene, where
from tests.records import create

BY_NAME = {each.name: each for each in SETS}
TO_ROUNDING = 1e-4
"""Rates are compared after they were rounded to four decimals."""


OF_VISITORS = 0.005
"""Of several entries of a visitor on one day, the service sees only the one that led furthest, also
where a replay would have seen another one.
"""


def saved(scene: Scene, warehouse: Warehouse, example: ForecastSet) -> str:
    """Store the events of a set and save its funnel. Returns the funnel's ID."""
    website_id = scene.tenant.website_id
    events = [
        replace(event, website_id=website_id, scope_id=website_id, event_id=f"{website_id}{number}")
        for number, event in enumerate(example.events)
    ]
    seed.store(warehouse, History(tuple(events)))
    body = {"name": example.name, **example.definition}
    answer = scene.client.post("/api/funnels", json=body)
    assert answer.status_code == 201, answer.text
    funnel_id: str = answer.json()["id"]
    return funnel_id


def parameters(example: ForecastSet, **more: Any) -> Json:
    """The parameters of the set's question."""
    return {
        "startAt": example.start_ms,
        "endAt": example.now_ms,
        "asOf": example.now_ms,
        "forecast": "true",
        **more,
    }


def assert_equal(forecast: Json, expected: Json | None, within: float = TO_ROUNDING) -> None:
    assert expected is not None
    assert {name: forecast[name] for name in ("rate", "low", "high")} == {
        name: pytest.approx(expected[name], abs=within) for name in ("rate", "low", "high")
    }
    assert forecast["completed"] == pytest.approx(expected["completed"], rel=within)
    assert forecast["history"]["units"] == expected["history"]["units"]
    assert forecast["replays"] == pytest.approx(expected["replays"], abs=400 * within)
    assert forecast["meanError"] == pytest.approx(expected["meanError"], abs=100 * within)
    assert forecast["heldShare"] == pytest.approx(expected["heldShare"], abs=10 * within)
    assert forecast["inside"] / forecast["intervals"] == pytest.approx(
        forecast["heldShare"], abs=1e-4
    )


@pytest.mark.slow("the reference replays a set in plain Python")
@pytest.mark.parametrize("name", ["few units", "steady", "exclusions", "demo"])
def test_the_service_forecasts_as_the_reference(
    scene: Scene, warehouse: Warehouse, name: str
) -> None:
    example = BY_NAME[name]
    report = scene.results(saved(scene, warehouse, example), **parameters(example))
    assert_equal(report["forecast"], example.forecaster().answer())


def test_each_step_has_its_own_forecast(scene: Scene, warehouse: Warehouse) -> None:
    example = BY_NAME["few units"]
    report = scene.results(saved(scene, warehouse, example), **parameters(example))
    first, second, third = report["aggregate"]["steps"]
    of_second = replace(example.question(), step=2)
    assert first["forecast"] is None
    assert_equal(second["forecast"], Forecaster(example.courses, of_second).answer())
    assert third["forecast"] == report["forecast"] == report["cohorts"]["data"][0]["forecast"]


@pytest.mark.slow("the reference replays three questions in plain Python")
def test_cohorts_have_forecasts_from_their_own_history(scene: Scene, warehouse: Warehouse) -> None:
    example = BY_NAME["two populations"]
    funnel_id = saved(scene, warehouse, example)
    report = scene.results(funnel_id, **parameters(example))
    assert_equal(report["forecast"], example.forecaster().answer())
    for cohort in report["cohorts"]["data"]:
        expected = example.forecaster([cohort["cohort"]["device"]]).answer()
        assert_equal(cohort["forecast"], expected)
        assert cohort["forecast"]["history"]["ofCohort"]
        alone = scene.results(funnel_id, **parameters(example, cohort=cohort["cohort"]))
        assert_equal(alone["forecast"], expected)


def test_a_report_without_the_parameter_has_no_forecast(scene: Scene) -> None:
    report = scene.results(scene.attempts("A", "B"))
    assert "forecast" not in report
    assert all("forecast" not in step for step in report["aggregate"]["steps"])


def test_nothing_is_forecast_without_open_units(scene: Scene) -> None:
    scene.story("0/A 10/B")
    report = scene.results(scene.attempts("A", "B"), forecast="true")
    assert report["forecast"] is None


def test_too_little_history_is_said(scene: Scene, clock: ShiftedClock) -> None:
    recent = Scene(scene.tenant, clock, ago_s=60)
    recent.story("0/A")
    report = scene.results(scene.attempts("A", "B"), forecast="true")
    assert report["forecast"] == {"reason": "too_little_history"}
    assert report["aggregate"]["finalRate"] == {"lower": 0, "upper": 1}


def test_without_a_window_nothing_settles(scene: Scene) -> None:
    scene.story("0/A")
    report = scene.results(scene.funnel("A", "B", countingUnit="visitor"), forecast="true")
    assert report["forecast"] == {"reason": "no_window"}


@pytest.mark.slow("the reference replays each open bucket in plain Python")
@pytest.mark.parametrize("name", ["steady", "exclusions"])
def test_open_buckets_of_a_trend_have_forecasts(
    scene: Scene, warehouse: Warehouse, name: str
) -> None:
    example = BY_NAME[name]
    start_ms = example.now_ms - 9 * DAY_MS
    period = parameters(example, startAt=start_ms, interval="day")
    trend = scene.report(saved(scene, warehouse, example), "trend", **period)
    settled, *_, third, second, last = trend["data"]
    assert settled["forecast"] is None
    for bucket in (third, second, last):
        of_bucket = replace(
            example.question(),
            start_ms=max(parse_time(bucket["from"]), start_ms),
            end_ms=min(parse_time(bucket["to"]), example.now_ms),
            is_part=True,
        )
        expected = Forecaster(example.courses, of_bucket).answer()
        assert (bucket["forecast"] is None) == (expected is None)
        if expected is not None:
            within = TO_ROUNDING if name == "steady" else OF_VISITORS
            assert_equal(bucket["forecast"], expected, within)
    assert last["forecast"]["rate"]


def test_a_record_serves_later_requests_of_the_day(scene: Scene, warehouse: Warehouse) -> None:
    """An hour later the history is the same, and open units are counted by their age then."""
    example = BY_NAME["few units"]
    funnel_id = saved(scene, warehouse, example)
    first = scene.results(funnel_id, **parameters(example))["forecast"]
    later = replace(example.question(), now_ms=example.now_ms + HOUR_S * 1000)
    hour_later = parameters(example, asOf=later.now_ms)
    forecast = scene.results(funnel_id, **hour_later)["forecast"]
    assert forecast["history"] == first["history"]
    assert (forecast["meanError"], forecast["replays"]) == (first["meanError"], first["replays"])
    exact = Forecaster(example.courses, later).answer()
    assert exact is not None
    assert forecast["rate"] == pytest.approx(exact["rate"], abs=0.005)
    day_later = parameters(example, asOf=example.now_ms + DAY_MS)
    assert scene.results(funnel_id, **day_later)["forecast"]["history"] != first["history"]


def test_earlier_forecasts_stand_beside_what_came_of_them(
    scene: Scene, warehouse: Warehouse
) -> None:
    example = BY_NAME["few units"]
    funnel_id = saved(scene, warehouse, example)
    query = parameters(example)
    del query["forecast"]
    record = scene.report(funnel_id, "forecast/replays", **query)
    forecaster = example.forecaster()
    replays = forecaster.replays()
    assert [each["days"] for each in record["data"]] == [each.days for each in replays]
    for each, replay in zip(record["data"], replays, strict=True):
        interval = forecaster.interval(replay.days)
        assert (each["rate"], each["truth"]) == pytest.approx(
            (replay.estimate.rate, replay.truth), abs=TO_ROUNDING
        )
        assert (each["low"], each["high"]) == (
            (None, None) if interval is None else pytest.approx(interval, abs=TO_ROUNDING)
        )
        assert parse_time(each["at"]) == example.now_ms - each["days"] * DAY_MS
    report = scene.results(funnel_id, **parameters(example))
    for name in ("meanError", "heldShare"):
        assert record[name] == report["forecast"][name]


def test_others_than_the_largest_cohorts_and_the_last_buckets_are_left_out(
    scene: Scene, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.funnels.forecasts.making.MAX_COHORTS", 1)
    monkeypatch.setattr("penstock.funnels.forecasts.making.MAX_BUCKETS", 1)
    example = BY_NAME["two populations"]
    funnel_id = saved(scene, warehouse, example)
    first, second = scene.results(funnel_id, **parameters(example))["cohorts"]["data"]
    assert first["forecast"]["rate"]
    assert second["forecast"] == {"reason": "left_out"}
    page = scene.tenant.browser.get(
        f"/funnels/{funnel_id}",
        params={**parameters(example), "show": "cohorts"},
        headers={"HX-Request": "true", "HX-Target": "detail"},
    ).text
    assert "Only the 20 cohorts with most" in " ".join(page.split())
    start_ms = example.now_ms - 9 * DAY_MS
    period = parameters(example, startAt=start_ms, interval="day")
    *_, third, second, _ = scene.report(funnel_id, "trend", **period)["data"]
    for bucket in (third, second):
        assert bucket["forecast"] in (None, {"reason": "left_out"})
    assert second["forecast"]


def test_the_verdict_says_where_the_rate_will_settle(scene: Scene, warehouse: Warehouse) -> None:
    example = BY_NAME["few units"]
    funnel_id = saved(scene, warehouse, example)
    query = parameters(example)
    forecast = scene.results(funnel_id, **query)["forecast"]
    sentences = [each["text"] for each in scene.report(funnel_id, "verdict", **query)["sentences"]]
    [settles] = [text for text in sentences if "settle" in text]
    assert settles.startswith("The rate will settle at about ")
    assert f"{forecast['inside']} of {forecast['intervals']} inside their interval." in settles
    del query["forecast"]
    without = [each["text"] for each in scene.report(funnel_id, "verdict", **query)["sentences"]]
    assert without == [text for text in sentences if text != settles]


def test_another_definition_of_a_rule_is_another_question(
    scene: Scene, warehouse: Warehouse
) -> None:
    example = BY_NAME["two populations"]
    funnel_id = saved(scene, warehouse, example)

    def of_kind(device: str) -> Json:
        return {"type": "Event", "value": "A", "filters": [where("device", "equals", device)]}

    rules = scene.funnel(of_kind("phone"), "B", name="Rule")
    rule = {"name": "Of a kind", "kind": "rule", "funnelId": rules, "parameters": {"step": "1"}}
    cohort = create(scene.client, "/api/cohorts", rule)["id"]
    query = parameters(example, filters=json.dumps([where("$cohort", "equals", cohort)]))
    phones = scene.results(funnel_id, **query)["forecast"]
    definition = scene.definition(rules) | {
        "steps": [of_kind("desktop"), {"type": "Event", "value": "B"}]
    }
    scene.client.put(f"/api/funnels/{rules}", json=definition).raise_for_status()
    desktops = scene.results(funnel_id, **query)["forecast"]
    assert desktops["history"]["units"] != phones["history"]["units"]
    assert scene.results(funnel_id, **query)["forecast"] == desktops


@pytest.mark.slow("replays two cohorts for three questions")
def test_comparisons_forecast_what_the_report_does(scene: Scene, warehouse: Warehouse) -> None:
    example = BY_NAME["two populations"]
    funnel_id = saved(scene, warehouse, example)
    query = parameters(example)
    report = scene.results(funnel_id, **query)
    compared = scene.report(funnel_id, "compare", property="device", **query)
    assert [each["forecast"]["rate"] for each in compared["cohorts"]] == [
        each["forecast"]["rate"] for each in report["cohorts"]["data"]
    ]
    before = {name: query[name] - 7 * DAY_MS for name in ("startAt", "endAt")}
    earlier = {"compareStartAt": before["startAt"], "compareEndAt": before["endAt"]}
    periods = scene.report(funnel_id, "periods", **query, **earlier)
    assert periods["forecast"] == report["forecast"]


def test_late_events_make_the_record_look_better(scene: Scene, warehouse: Warehouse) -> None:
    example = BY_NAME["few units"]

    def late() -> list[Event]:
        return [
            replace(event, fields={"received_at": iso(event.at_ms + 2 * HOUR_S * 1000)})
            for event in example.events
        ]

    funnel_id = saved(scene, warehouse, replace(example, make=late))
    assert scene.results(funnel_id, **parameters(example))["forecast"]["lateShare"] == 1


@pytest.mark.slow("asks about several periods")
def test_periods_of_a_moment_have_a_bounded_history(scene: Scene, warehouse: Warehouse) -> None:
    """The history of visitors has as many spans as fit into it: here billions."""
    example = BY_NAME["few units"]
    of_visitors = dict(example.definition) | {"countingUnit": "visitor"}
    del of_visitors["attemptProperty"]
    funnel_id = saved(scene, warehouse, replace(example, definition=of_visitors))
    entered_ms = max(event.at_ms for event in example.events if event.name == "A")
    moment = {"startAt": entered_ms, "endAt": entered_ms + 1}
    for period in (moment, {"startAt": example.now_ms, "endAt": example.now_ms + DAY_MS}):
        query = parameters(example, **period)
        assert "forecast" in scene.results(funnel_id, **query)
        assert "forecast" in scene.report(funnel_id, "trend", **query)["data"][0]
        del query["forecast"]
        assert "data" in scene.report(funnel_id, "forecast/replays", **query)


def test_units_that_are_all_expected_to_be_excluded_have_no_rate(
    scene: Scene, warehouse: Warehouse
) -> None:
    """The second request uses the record of the first. Meanwhile the last unit that was expected to
    stay eligible has reached step 2, after which all units are excluded.
    """
    entered = DAYS - 3.5
    units: list[tuple[float, list[Step]]] = [(entered, [("B", 0.1)]), (entered, [("B", 3.49)])]
    for day in range(DAYS - 8):
        at = day + 0.5
        units += [(at, []), (at, []), (at, [("B", 0.1), ("X", 5.0)])]
    events = [
        event(f"u-{number}", name, day + later, {}, 3 * number + step)
        for number, (day, steps) in enumerate(units)
        for step, (name, later) in enumerate([("A", 0.0), *steps])
    ]
    start_ms, definition = NOW_MS - round(3.5 * DAY_MS), funnel("A", "B", "-X", "C")
    example = ForecastSet("excluded", "", definition, start_ms, NOW_MS, lambda: events)
    funnel_id = saved(scene, warehouse, example)
    query = parameters(example, endAt=start_ms + 1)
    before = scene.results(funnel_id, **query | {"asOf": NOW_MS - HOUR_S * 1000})
    assert before["forecast"]["rate"] == 0
    report = scene.results(funnel_id, **query)
    assert [step["forecast"] for step in report["aggregate"]["steps"][1:]] == 2 * [
        {"reason": "too_little_history"}
    ]


@pytest.mark.slow("replays two buckets of many units")
def test_buckets_of_other_lengths_have_their_own_records(
    scene: Scene, warehouse: Warehouse
) -> None:
    """A day and a week can begin at the same time. The week has more replays whose truth is not
    known yet.
    """
    example = BY_NAME["steady"]
    funnel_id, start_ms = saved(scene, warehouse, example), example.now_ms - 7 * DAY_MS

    def replays(interval: str, days: int) -> int:
        query = parameters(example, startAt=start_ms, endAt=start_ms + days * DAY_MS)
        [bucket] = scene.report(funnel_id, "trend", **query, interval=interval)["data"]
        number: int = bucket["forecast"]["replays"]
        return number

    assert replays("week", 7) < replays("day", 1)


def test_requests_at_the_same_time_share_a_new_record(
    scene: Scene, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parts of a page ask at the same time."""
    example, calls = BY_NAME["few units"], list[str]()
    funnel_id, make_day = saved(scene, warehouse, example), service.make_day

    def slowly(*arguments: Any) -> DayRecord:
        calls.append(funnel_id)
        sleep(1)
        return make_day(*arguments)

    def ask(_: int) -> Json:
        forecast: Json = scene.results(funnel_id, **parameters(example))["forecast"]
        return forecast

    monkeypatch.setattr(service, "make_day", slowly)
    with ThreadPoolExecutor(3) as threads:
        first, *others = threads.map(ask, range(3))
    assert first["rate"]
    assert others == [first, first]
    assert calls == [funnel_id]
