"""Two periods at the same age. Source: funnel semantics, "Comparison of periods at equal age"."""

from typing import Any

import httpx
import pytest

from tests.conftest import ShiftedClock
from tests.funnels.answers import fields
from tests.funnels.scenario import DAY_S, Json, Scene, pick
from tests.records import ndjson, send_file

pytestmark = pytest.mark.usefixtures("warehouse")


def wait_until(scene: Scene, clock: ShiftedClock, day: int) -> None:
    """Set the clock to ten minutes after the start of a day of the scene."""
    clock.ahead_ms = 0
    clock.ahead_ms = scene.start_ms + (day * DAY_S + 600) * 1000 - clock()


def ask(scene: Scene, funnel_id: str, **query: Any) -> httpx.Response:
    """Compare the days from 110 to 112 with the days from 100 to 102."""
    return scene.request(funnel_id, "periods", **{**usual_periods(scene), **query})


def usual_periods(scene: Scene) -> Json:
    before = {"compareStartAt": scene.at(100 * DAY_S), "compareEndAt": scene.at(102 * DAY_S)}
    return {**scene.period(110 * DAY_S, 112 * DAY_S), **before}


def compare(scene: Scene, funnel_id: str, **query: Any) -> Json:
    return scene.report(funnel_id, "periods", **{**usual_periods(scene), **query})


def tell(scene: Scene, clock: ShiftedClock, day: int, entered: int, completed: int) -> None:
    """Attempts enter at the start of a day, one a second; some complete a minute later."""
    wait_until(scene, clock, day)
    items = []
    for number in range(entered):
        at_s = day * DAY_S + number
        properties = {"attempt": f"{day}-{number}", "plan": "pro" if number % 2 else "basic"}
        items.append(scene.item(at_s, "A", **properties))
        if number < completed:
            items.append(scene.item(at_s + 60, "B", **properties))
    scene.track(items)


def test_the_earlier_period_is_counted_as_it_looked_at_the_same_age(
    scene: Scene, clock: ShiftedClock
) -> None:
    funnel = scene.attempts("A", "B", conversionWindowSeconds=7 * DAY_S)
    for day in (100, 110):
        tell(scene, clock, day, 1, 0)
        if day == 110:
            wait_until(scene, clock, 113)
            young = compare(scene, funnel)
        wait_until(scene, clock, day + 5)
        scene.send_event((day + 5) * DAY_S, "B", attempt=f"{day}-0")
    assert young["earlier"]["evaluatedAt"].startswith(scene.at(103 * DAY_S + 600)[:16])
    for part in (young, young["earlier"]):
        assert (part["aggregate"]["entered"], part["aggregate"]["pending"]) == (1, 1)
    wait_until(scene, clock, 116)
    old = compare(scene, funnel)
    for part in (old, old["earlier"]):
        assert (part["aggregate"]["completed"], part["aggregate"]["earlyCompletions"]) == (1, 1)


def test_changes_name_difference_interval_and_answer(scene: Scene, clock: ShiftedClock) -> None:
    tell(scene, clock, 100, 100, 40)
    tell(scene, clock, 110, 100, 80)
    funnel = scene.attempts("A", "B", breakdownProperties=["plan"])
    wait_until(scene, clock, 120)
    record = compare(scene, funnel)
    rate = record["settledRate"]
    assert (rate["rate"], rate["rateBefore"], rate["difference"]) == (0.8, 0.4, 0.4)
    assert 0.26 < rate["differenceInterval"]["lower"] < 0.4 < rate["differenceInterval"]["upper"]
    assert rate["answer"] == "higher"
    first, second = record["steps"]
    assert (first["count"], first["countBefore"], first["fromPrevious"]) == (100, 100, None)
    assert first["fromStart"]["answer"] == "no_clear_difference"
    assert second["fromPrevious"]["answer"] == "higher"
    assert [
        (row["cohort"]["plan"], row["entered"], row["enteredBefore"], row["settledRate"]["answer"])
        for row in record["cohorts"]
    ] == [("basic", 50, 50, "higher"), ("pro", 50, 50, "higher")]
    assert record["notes"] == []


def test_the_summary_says_what_changed_and_at_which_step(scene: Scene, clock: ShiftedClock) -> None:
    for day, completed in ((100, 40), (102, 80)):
        wait_until(scene, clock, day)
        items = []
        for number in range(100):
            at_s, attempt = day * DAY_S + number, f"{day}-{number}"
            items += [
                scene.item(at_s + later, name, attempt, attempt=attempt)
                for name, later in (("A", 0), ("B", 9), ("C", 60))[: 2 + (number < completed)]
            ]
        scene.track(items)
    wait_until(scene, clock, 120)
    funnel = scene.attempts("A", "B", "C")
    adjacent = scene.period(102 * DAY_S, 104 * DAY_S)
    assert compare(scene, funnel, **adjacent)["summary"] == (
        "80.0% of 100 settled attempts completed, 40.0 points up from 40.0% in the 2 days before "
        "(95%: 26.8 to 51.2). The clearest change is from step 2 to 3: 80.0% continued, 40.0 "
        "points up from 40.0% in the 2 days before (95%: 26.8 to 51.2)."
    )
    assert compare(scene, funnel)["summary"] == (
        "Too few to compare: 0 attempts in this period and 100 in the earlier one. At least 30 are "
        "needed in each."
    )


def test_the_trend_has_the_days_of_both_periods_side_by_side(
    scene: Scene, clock: ShiftedClock
) -> None:
    for day, entered in ((100, 50), (101, 4), (110, 40), (111, 3)):
        tell(scene, clock, day, entered, entered // 2)
    wait_until(scene, clock, 112)
    funnel = scene.attempts("A", "B", conversionWindowSeconds=DAY_S)
    midnight = scene.at(110 * DAY_S)[:10]
    days = compare(scene, funnel)["trend"]
    counts = [(day["bucket"]["entered"], day["bucketBefore"]["entered"]) for day in days]
    assert counts == [(40, 50), (3, 4), (0, 0)][: len(days)]
    assert days[0]["bucket"]["from"].startswith(midnight)
    assert days[0]["settledRate"]["rateBefore"] == 0.5
    assert days[0]["settledRate"]["answer"] == "no_clear_difference"
    assert days[1]["settledRate"]["answer"] == "too_early"
    assert (days[1]["bucket"]["maturing"], days[1]["bucketBefore"]["maturing"]) == (True, True)
    before = {"compareStartAt": scene.at(0), "compareEndAt": scene.at(2001 * DAY_S)}
    long = {**scene.period(2001 * DAY_S, 4002 * DAY_S), **before}
    assert compare(scene, funnel, **long)["trend"] is None


def test_few_settled_units_are_too_early_to_say(scene: Scene, clock: ShiftedClock) -> None:
    tell(scene, clock, 100, 40, 40)
    tell(scene, clock, 110, 29, 0)
    wait_until(scene, clock, 120)
    funnel = scene.attempts("A", "B")
    rate = compare(scene, funnel)["settledRate"]
    assert (rate["difference"], rate["answer"]) == (-1.0, "too_early")
    later = scene.period(115 * DAY_S, 117 * DAY_S)
    empty = compare(scene, funnel, **later)["settledRate"]
    assert (empty["rate"], empty["difference"], empty["answer"]) == (None, None, "too_early")


def test_events_that_arrived_late_are_noted(scene: Scene, clock: ShiftedClock) -> None:
    wait_until(scene, clock, 120)
    scene.send_event(100 * DAY_S, "A")
    [note] = compare(scene, scene.attempts("A", "B"))["notes"]
    assert note.startswith("100% of the earlier period's events arrived more than an hour after")


def test_a_history_that_was_sent_at_once_is_late_in_both_periods(
    scene: Scene, clock: ShiftedClock
) -> None:
    wait_until(scene, clock, 120)
    scene.send_event(100 * DAY_S, "A")
    scene.send_event(110 * DAY_S, "A")
    assert compare(scene, scene.attempts("A", "B"))["notes"] == []


def test_imported_events_are_not_late(scene: Scene, clock: ShiftedClock) -> None:
    wait_until(scene, clock, 120)
    line = {"type": "event", "name": "A", "timestamp": scene.at(100 * DAY_S), "userId": "u-1"}
    query = {"websiteId": scene.tenant.website_id}
    send_file(scene.client, ndjson([line]), "application/x-ndjson", query, "done")
    record = compare(scene, scene.funnel("A", "B", conversionWindowSeconds=DAY_S))
    assert record["earlier"]["aggregate"]["entered"] == 1
    assert record["notes"] == []


def test_a_report_as_of_an_earlier_time_reads_no_later_event(scene: Scene) -> None:
    scene.story("0/A 100/B", attempt="one")
    scene.story("50/A", attempt="two")
    scene.story("200/A", attempt="three")
    funnel = scene.attempts("A", "B")
    then = scene.results(funnel, asOf=scene.at(60))
    assert then["evaluatedAt"] == scene.at(60)
    total = then["aggregate"]
    assert pick(total, "entered", "completed", "pending") == (2, 0, 2)
    units = scene.units(funnel, asOf=scene.at(60))
    assert {unit["outcome"] for unit in units.values()} == {"pending"}
    assert scene.results(funnel)["aggregate"]["entered"] == 3
    assert fields(scene.request(funnel, "results", asOf=scene.at(9**9))) == ["asOf"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"compareStartAt": 110 * DAY_S}, "compareStartAt"),
        ({"compareEndAt": 99 * DAY_S}, "compareEndAt"),
        ({"compareEndAt": 103 * DAY_S}, "compareEndAt"),
        ({"timezone": "Mars"}, "timezone"),
    ],
)
def test_bad_periods_are_refused_by_name(scene: Scene, query: Json, field: str) -> None:
    sent = {
        name: scene.at(value) if isinstance(value, int) else value for name, value in query.items()
    }
    answer = ask(scene, scene.attempts("A", "B"), **sent)
    assert fields(answer) == [field]


def test_periods_of_equal_days_may_differ_by_a_clock_change(scene: Scene) -> None:
    times = {
        "startAt": "2026-03-27T23:00:00Z",
        "endAt": "2026-03-29T22:00:00Z",
        "compareStartAt": "2026-03-25T23:00:00Z",
        "compareEndAt": "2026-03-27T23:00:00Z",
        "timezone": "Europe/Berlin",
    }
    assert ask(scene, scene.attempts("A", "B"), **times).status_code == 200


def test_a_funnel_without_a_window_says_what_to_send(scene: Scene) -> None:
    funnel = scene.funnel("A", "B")
    assert fields(ask(scene, funnel)) == ["window"]
    assert ask(scene, funnel, window="30d").status_code == 200
