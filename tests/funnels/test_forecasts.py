"""The service's forecasts over HTTP, compared with those of the reference."""

from dataclasses import replace
from typing import Any

import pytest

from penstock.warehouse.client import Warehouse
from tests.conftest import ShiftedClock
from tests.funnels import seed
from tests.funnels.forecast_sets import SETS, ForecastSet
from tests.funnels.reference import History
from tests.funnels.reference.forecast import Forecaster
from tests.funnels.scenario import Json, Scene

BY_NAME = {each.name: each for each in SETS}
TO_ROUNDING = 1e-4
"""Rates are compared after they were rounded to four decimals."""


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
    assert forecast["replays"] == expected["replays"]
    assert forecast["meanError"] == pytest.approx(expected["meanError"], abs=0.01)
    assert forecast["heldShare"] == pytest.approx(expected["heldShare"], abs=1e-4)


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
