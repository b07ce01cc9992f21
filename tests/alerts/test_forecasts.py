"""Alerts on where a rate will settle, and their corrections."""

import pytest

from tests.alerts.conftest import DAY_MS, Shop
from tests.answers import faults
from tests.funnels.scenario import HOUR_S

DAYS = 45
EVENING, NEXT_DAY, LATER = 20, 36.25, 0.15
"""Hours after the start of a day at which its checkouts begin, at which the first one completes,
and between it and the next.
"""


@pytest.fixture
def shop(shop: Shop) -> Shop:
    """Forty checkouts each evening, of which about half complete in the next afternoon: those of
    yesterday may still do so. It is noon.
    """
    for day in range(-DAYS, 0):
        enter(shop, day)
        if day < -1:
            complete(shop, day, 19 + day % 3)
    return shop


def enter(shop: Shop, day: int) -> None:
    shop.send([shop.track(24 * day + EVENING, "started", f"{day}-{each}") for each in range(40)])


def complete(shop: Shop, day: int, number: int, later: float = LATER) -> None:
    """Complete the first checkouts of a day."""
    at = 24 * day + NEXT_DAY
    shop.send(
        [
            shop.track(at + each * later + step / 100, name, f"{day}-{each}")
            for each in range(number)
            for step, name in enumerate(("submitted", "bought"))
        ]
    )


def test_a_forecast_below_the_level_alarms_while_the_bounds_still_wait(
    shop: Shop, url: str
) -> None:
    channels = [{"kind": "webhook", "url": url}]
    sure = shop.alert(shop.rate("below", 0.7), channels, name="Sure")
    soon = shop.alert(shop.rate("will_settle_below", 0.7), channels, name="Soon")
    near = shop.alert(shop.rate("will_settle_below", 0.5), channels, name="Near")
    above = shop.alert(shop.rate("will_settle_above", 0.3), channels, name="Above")
    shop.check()
    [message] = shop.delivered(soon)
    assert message["subject"].startswith("Soon: about 50% expected on ")
    assert message["subject"].endswith(", below 70%")
    text = " ".join(message["lines"])
    assert "the final rate will be between 0.0% and 100.0%" in text
    assert "The rate will settle at about 50" in text
    assert "earlier forecasts were" in text
    forecast = message["figures"]["forecast"]
    assert forecast["low"] < 0.5 < forecast["high"] < 0.7
    assert [each["kind"] for each in shop.messages(above)] == ["alarm"]
    assert shop.messages(sure) == shop.messages(near) == [], "what may still happen decides"
    shop.clock.advance(seconds=4 * HOUR_S)
    complete(shop, -1, 20)
    shop.pass_hours(16)  # all windows close
    assert len(shop.messages(soon)) == 1, "the alarm was right"


def test_a_forecast_that_does_not_hold_is_corrected_once(shop: Shop, url: str) -> None:
    condition = shop.rate("will_settle_below", 0.7)
    alert = shop.alert(condition, [{"kind": "webhook", "url": url}])
    shop.check()
    [alarm] = shop.delivered(alert)
    shop.clock.advance(seconds=1.5 * HOUR_S)
    complete(shop, -1, 23, later=0.02)
    shop.pass_hours(0.5)
    path = f"/api/funnels/{shop.funnel_id}/trend"
    period = f"startAt={shop.today_ms - DAY_MS}&endAt={shop.today_ms}&forecast=true"
    [bucket] = shop.get(f"{path}?{period}")["data"]
    assert bucket["forecast"]["low"] < 0.7 < bucket["forecast"]["high"]
    assert len(shop.messages(alert)) == 1, "the alarm stands until the forecast contradicts it"
    shop.clock.advance(seconds=2 * HOUR_S)
    complete(shop, -1, 36, later=0.02)
    shop.pass_hours(1)
    [_, correction] = shop.delivered(alert)
    assert (correction["kind"], correction["corrects"]) == ("correction", alarm["id"])
    assert "what happened since then changed the figures" in correction["lines"][0]
    shop.pass_hours(20)
    assert len(shop.messages(alert)) == 2


def test_a_forecast_is_about_the_whole_funnel(shop: Shop, url: str) -> None:
    for more in ({"fromStep": "1", "toStep": "2"}, {"forecast": "true"}):
        condition = shop.rate("will_settle_below", 0.7, **more)
        body = {"name": "A", "condition": condition, "channels": [{"kind": "webhook", "url": url}]}
        codes = faults(shop.tenant.client.post("/api/alerts", json=body))
        assert codes == {f"condition.parameters.{name}": "not_for_type" for name in more}
