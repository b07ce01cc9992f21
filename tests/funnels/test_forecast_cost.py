"""How much work a report with a forecast takes, beside the plain report."""

from dataclasses import replace
from statistics import median
from time import process_time

import pytest

from penstock.warehouse.client import Warehouse
from tests.funnels.forecast_sets import THREE, attempts, simulated, steady
from tests.funnels.reference.forecast import DAY_MS
from tests.funnels.scenario import Json, Scene
from tests.funnels.test_forecasts import assert_equal, parameters, saved

ROUNDS = 7
OF_VISITORS: Json = {**THREE, "countingUnit": "visitor"}
del OF_VISITORS["attemptProperty"]


@pytest.mark.full("measures work over 250,000 events, which the reference replays too")
@pytest.mark.parametrize(("definition", "per_day"), [(THREE, 400), (OF_VISITORS, 200)])
def test_a_forecast_costs_half_a_report_once_its_record_exists(
    scene: Scene, warehouse: Warehouse, definition: Json, per_day: int
) -> None:
    """The processor time includes that of the embedded engine. Attempts have enough events for the
    packed fold.
    """
    many = simulated("many", "", lambda: attempts(2, lambda _: per_day, steady), definition)
    many = replace(many, start_ms=many.now_ms - 30 * DAY_MS)
    funnel_id = saved(scene, warehouse, many)

    def ask(number: int, *, forecast: bool) -> tuple[float, Json]:
        """Return the seconds, and the answer as of another time, so that it is not in the cache."""
        query = parameters(many, asOf=many.now_ms + number, forecast=str(forecast).lower())
        start = process_time()
        report = scene.results(funnel_id, **query)
        return process_time() - start, report

    ask(0, forecast=False)
    first, report = ask(1, forecast=True)
    numbers = range(2, ROUNDS + 2)
    plain = median(ask(number, forecast=False)[0] for number in numbers)
    later = median(ask(number + ROUNDS, forecast=True)[0] for number in numbers)
    print(f"report {plain:.3f} s, with forecast {later:.3f} s, the first time {first:.3f} s")
    assert later <= 1.5 * plain
    assert first <= 8 * plain
    if definition is THREE:
        assert_equal(report["forecast"], many.forecaster().answer())
