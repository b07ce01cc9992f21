"""The ten sets through the service: how its forecasts did, beside those of the reference."""

import pytest

from penstock.base.clock import parse_time
from penstock.warehouse.client import Warehouse
from tests.funnels.forecast_sets import LOG, REPLAYED_DAYS, SETS, ForecastSet
from tests.funnels.reference.forecast import DAY_MS
from tests.funnels.scenario import Json, Scene
from tests.funnels.test_forecasts import parameters, saved

DAYS_AGO = (0, 40, 80)
"""A question knows the replays of 60 days, without those whose truth was not known yet."""


@pytest.mark.full("the reference replays each set on 120 days in plain Python")
@pytest.mark.parametrize("example", SETS, ids=lambda example: example.name)
def test_earlier_forecasts_of_the_sets_are_those_of_the_reference(
    scene: Scene, warehouse: Warehouse, example: ForecastSet
) -> None:
    if example.name == "receipt" and not LOG.exists():
        pytest.skip("its log is not here")
    replays = replays_of(scene, saved(scene, warehouse, example), example)
    forecaster = example.forecaster()
    expected = [each for each in forecaster.replays(0, REPLAYED_DAYS) if each.days in replays]
    assert [each.days for each in expected] == sorted(replays)
    ours = [replays[each.days] for each in expected]
    error = 100 * sum(abs(each["rate"] - each["truth"]) for each in ours) / len(ours)
    held = [each["held"] for each in ours if each["held"] is not None]
    error_there = 100 * sum(each.error for each in expected) / len(expected)
    held_there = forecaster.held(expected)
    print(
        f"| {example.name} | {len(ours)} | {error:.2f} | {error_there:.2f} "
        f"| {sum(held) / len(held):.3f} | {sum(held_there) / len(held_there):.3f} |"
    )
    within = 0.01 if example.question().of_visitors else 1e-4
    for each, there in zip(ours, expected, strict=True):
        assert (each["rate"], each["truth"]) == pytest.approx(
            (there.estimate.rate, there.truth), abs=within
        )
    assert len(held) == len(held_there)
    assert sum(held) == pytest.approx(sum(held_there), abs=100 * within)


def replays_of(scene: Scene, funnel_id: str, example: ForecastSet) -> dict[int, Json]:
    """The replays that several questions know, by the number of days before the set's question."""
    replays = {}
    for days in DAYS_AGO:
        shift_ms = days * DAY_MS
        period = {"startAt": example.start_ms - shift_ms, "endAt": example.now_ms - shift_ms}
        query = parameters(example, **period, asOf=example.now_ms - shift_ms)
        del query["forecast"]
        for replay in scene.report(funnel_id, "forecast/replays", **query)["data"]:
            replays[(example.now_ms - parse_time(replay["at"])) // DAY_MS] = replay
    return {days: replay for days, replay in replays.items() if days <= REPLAYED_DAYS}
