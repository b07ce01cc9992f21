"""How long a report with a forecast takes, beside the plain report."""

from dataclasses import replace
from statistics import median
from time import perf_counter

import pytest

from penstock.warehouse.client import Warehouse
from tests.funnels.forecast_sets import THREE, attempts, simulated, steady
from tests.funnels.reference.forecast import DAY_MS
from tests.funnels.scenario import Json, Scene
from tests.funnels.test_forecasts import assert_equal, parameters, saved

PER_DAY = 400
"""Number of units: with their later steps, enough events for the packed fold."""
ROUNDS = 7


@pytest.mark.full("measures time over 250,000 events, which the reference replays too")
def test_a_forecast_costs_half_a_report_once_its_record_exists(
    scene: Scene, warehouse: Warehouse
) -> None:
    many = simulated("many", "", lambda: attempts(2, lambda _: PER_DAY, steady), THREE)
    many = replace(many, start_ms=many.now_ms - 30 * DAY_MS)
    funnel_id = saved(scene, warehouse, many)

    def ask(number: int, *, forecast: bool) -> tuple[float, Json]:
        """Return the seconds, and the answer as of another time, so that it is not in the cache."""
        query = parameters(many, asOf=many.now_ms + number, forecast=str(forecast).lower())
        start = perf_counter()
        report = scene.results(funnel_id, **query)
        return perf_counter() - start, report

    ask(0, forecast=False)
    first, report = ask(1, forecast=True)
    assert_equal(report["forecast"], many.forecaster().answer())
    numbers = range(2, ROUNDS + 2)
    plain = median(ask(number, forecast=False)[0] for number in numbers)
    later = median(ask(number + ROUNDS, forecast=True)[0] for number in numbers)
    print(f"report {plain:.3f} s, with forecast {later:.3f} s, the first time {first:.3f} s")
    assert later <= 1.5 * plain
    assert first <= 6.5 * plain
