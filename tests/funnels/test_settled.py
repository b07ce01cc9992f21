"""Settled rates over HTTP: they count only units whose window has ended."""

import io
from typing import Any

import pyarrow.parquet as parquet
import pytest

from tests.conftest import ShiftedClock
from tests.funnels.scenario import DAY_S, HOUR_S, Json, Scene, column, pick, step
from tests.tenant import Tenant

pytestmark = pytest.mark.usefixtures("warehouse")

WEEK_S = 7 * DAY_S
SETTLED = ("settled", "settledRate", "earlyCompletions")


@pytest.fixture
def scene(workspace: Tenant, clock: ShiftedClock) -> Scene:
    """Ten days of attempts, of which the last seven days are still open.

    Entered 9 and 8 days ago: 4 attempts, of which 1 completed. Entered 3 days ago and later: 3
    attempts, of which 2 completed.
    """
    scene = Scene(workspace, clock, ago_s=10 * DAY_S)
    day = {number: number * DAY_S for number in range(10)}
    scene.story(f"{day[1]}/A {day[1] + 60}/B", attempt="won", plan="pro")
    scene.story(f"{day[1]}/A", attempt="lost 1", plan="pro")
    scene.story(f"{day[2]}/A", attempt="lost 2", plan="basic")
    scene.story(f"{day[2]}/A", attempt="lost 3", plan="basic")
    scene.story(f"{day[7]}/A {day[7] + 60}/B", attempt="early 1", plan="basic")
    scene.story(f"{day[8]}/A {day[8] + 60}/B", attempt="early 2", plan="basic")
    scene.story(f"{day[9]}/A", attempt="waiting", plan="pro")
    return scene


@pytest.fixture
def funnel_id(scene: Scene) -> str:
    return scene.attempts("A", "B", conversionWindowSeconds=WEEK_S, breakdownProperties=["plan"])


def settled(part: Json) -> list[Any]:
    return [part[name] for name in SETTLED]


def test_the_settled_rate_leaves_out_units_whose_window_is_open(
    scene: Scene, funnel_id: str
) -> None:
    total = scene.results(funnel_id)["aggregate"]
    assert pick(total, "entered", "completed", "pending") == (7, 3, 1)
    assert settled(total) == [4, 0.25, 2]
    assert total["conversionRate"] == 0.4286
    assert total["finalRate"] == {"lower": 0.4286, "upper": 0.5714}


def test_each_cohort_has_its_own_settled_rate(scene: Scene, funnel_id: str) -> None:
    cohorts = {row["cohort"]["plan"]: row for row in scene.results(funnel_id)["cohorts"]["data"]}
    assert settled(cohorts["pro"]) == [2, 0.5, 0]
    assert settled(cohorts["basic"]) == [2, 0.0, 2]
    assert cohorts["basic"]["finalRate"] is None


def test_steps_count_the_settled_units_that_reached_them(scene: Scene, funnel_id: str) -> None:
    first, second = scene.results(funnel_id)["aggregate"]["steps"]
    figures = ("settled", "settledFromStart", "settledFromPrevious")
    assert pick(first, *figures) == (4, 1.0, None)
    assert pick(second, *figures) == (1, 0.25, 0.25)


def test_seven_days_of_a_seven_day_window_have_no_settled_rate(
    scene: Scene, funnel_id: str
) -> None:
    total = scene.results(funnel_id, **scene.period(6 * DAY_S, 10 * DAY_S))["aggregate"]
    assert settled(total) == [0, None, 2]
    assert total["droppedOff"] == 0


def test_nothing_settles_without_a_window(scene: Scene) -> None:
    total = scene.results(scene.funnel("A", "B"))["aggregate"]
    assert settled(total) == [0, None, total["completed"]]
    assert total["completed"] > 0


def test_buckets_have_settled_rates_and_the_bounds_that_open_ones_can_reach(
    scene: Scene, funnel_id: str
) -> None:
    trend = scene.report(funnel_id, "trend", interval="day", **scene.period(0, 10 * DAY_S))
    buckets = [bucket for bucket in trend["data"] if bucket["entered"]]
    assert [settled(bucket) for bucket in buckets] == [
        [2, 0.5, 0],
        [2, 0.0, 0],
        [0, None, 1],
        [0, None, 1],
        [0, None, 0],
    ]
    assert column(buckets, "finalRate") == [None, None, None, None, {"lower": 0.0, "upper": 1.0}]


def test_an_export_has_settled_rates_in_every_format(scene: Scene, funnel_id: str) -> None:
    names = ("settled", "settled_rate", "early_completions")
    assert pick(scene.table(funnel_id, "export")[0], *names) == ("4", "0.25", "2")
    file = io.BytesIO(scene.request(funnel_id, "export", format="parquet").content)
    assert pick(parquet.read_table(file).to_pylist()[0], *names) == (4, 0.25, 2)
    rows = scene.request(funnel_id, "export", format="json").json()
    assert pick(rows[0], *names) == (4, 0.25, 2)


def test_a_comparison_of_settled_units_does_not_count_pending_units_as_lost(
    workspace: Tenant, clock: ShiftedClock
) -> None:
    """Both variants convert half of their settled units. Variant b has 60 new, pending units."""
    scene = Scene(workspace, clock, ago_s=10 * DAY_S)
    new = 9 * DAY_S
    for number in range(40):
        done = " 60/B" if number % 2 else ""
        scene.story(f"0/A{done}", attempt=f"a {number}", variant="a")
        scene.story(f"0/A{done}", attempt=f"b {number}", variant="b")
    for number in range(20):
        scene.story(f"{new}/A", attempt=f"new {number}", variant="b")
    window = {"conversionWindowSeconds": WEEK_S}
    funnel_id = scene.attempts("A", "B", **window, breakdownProperties=["variant"])
    record = scene.report(funnel_id, "compare", property="variant", baseline='"a"')
    cohorts = {row["cohort"]["variant"]: row for row in record["cohorts"]}
    b = cohorts["b"]
    assert b["conversionRate"] == 0.3333
    assert b["againstBaseline"]["difference"] == pytest.approx(-0.166667)
    assert settled(b) == [40, 0.5, 0]
    assert b["settledAgainstBaseline"]["difference"] == 0
    assert b["settledAgainstBaseline"]["pValue"] == pytest.approx(1)
    assert b["settledTooFew"] is False
    assert cohorts["a"]["settledRateInterval"] == b["settledRateInterval"]
    assert cohorts["a"]["settledAgainstBaseline"] is None


def test_a_comparison_without_settled_units_makes_no_settled_claim(scene: Scene) -> None:
    window = {"conversionWindowSeconds": 30 * DAY_S}
    funnel_id = scene.attempts("A", "B", **window, breakdownProperties=["plan"])
    for cohort in scene.report(funnel_id, "compare", property="plan")["cohorts"]:
        assert settled(cohort)[:2] == [0, None]
        assert cohort["settledRateInterval"] is None
        assert cohort["settledAgainstBaseline"] is None
        assert cohort["settledTooFew"] is True


def test_a_unit_settles_when_its_window_is_over(workspace: Tenant, clock: ShiftedClock) -> None:
    """The window's last millisecond is still open, for a completed unit as well."""
    scene = Scene(workspace, clock, ago_s=DAY_S)
    scene.story("0/A 60/B")
    funnel_id = scene.attempts("A", "B", conversionWindowSeconds=WEEK_S)
    assert settled(scene.results(funnel_id)["aggregate"]) == [0, None, 1]
    clock.advance(seconds=WEEK_S)
    assert settled(scene.results(funnel_id)["aggregate"]) == [1, 1.0, 0]


def test_cohorts_sort_by_settled_rate_with_unsettled_ones_last(
    scene: Scene, funnel_id: str
) -> None:
    scene.story(f"{9 * DAY_S}/A", attempt="new", plan="new")
    rows = scene.results(funnel_id, sort="settledRate")["cohorts"]["data"]
    assert [(row["cohort"]["plan"], row["settledRate"]) for row in rows] == [
        ("pro", 0.5),
        ("basic", 0.0),
        ("new", None),
    ]


@pytest.fixture
def returning(workspace: Tenant, clock: ShiftedClock) -> Scene:
    """A visitor whose first entry leads furthest and is over, and whose second is still open."""
    scene = Scene(workspace, clock, ago_s=3800)
    scene.story("0/A 10/B 3700/A", attempt=None)
    return scene


def test_a_visitor_is_open_while_another_entry_has_an_open_window(returning: Scene) -> None:
    funnel = returning.funnel("A", "B", "C", conversionWindowSeconds=HOUR_S)
    report = returning.results(funnel)
    total = report["aggregate"]
    assert pick(total, "entered", "completed", "pending", "droppedOff") == (1, 0, 0, 1)
    assert settled(total) == [0, None, 0]
    assert total["finalRate"] == {"lower": 0.0, "upper": 1.0}
    assert column(total["steps"], "settled") == [0, 0, 0]
    assert column(total["steps"], "droppedOff") == [0, 1, 0]
    assert report["coverage"]["openWindows"] == 1
    assert returning.results(funnel, settled=True)["aggregate"]["entered"] == 0
    assert returning.trace(funnel, "ann", settled=True)["selected"] is False
    assert "may still complete" in returning.trace(funnel, "ann")["summary"]
    period = returning.period(-DAY_S, DAY_S)
    buckets = returning.report(funnel, "trend", interval="day", **period)["data"]
    [bucket] = [bucket for bucket in buckets if bucket["entered"]]
    assert settled(bucket) == [0, None, 0]
    assert bucket["finalRate"] == {"lower": 0.0, "upper": 1.0}
    returning.story("3710/B 3720/C", attempt=None)
    total = returning.results(funnel)["aggregate"]
    assert pick(total, "completed", "droppedOff", "settled", "earlyCompletions") == (1, 0, 0, 1)


def test_an_excluded_visitor_is_open_while_another_entry_may_complete(
    workspace: Tenant, clock: ShiftedClock
) -> None:
    scene = Scene(workspace, clock, ago_s=100)
    scene.story("0/A 10/B 20/X 30/A", attempt=None)
    scene.story("0/A 10/X", visitor="gone", attempt=None)
    scene.story("0/A 10/B 20/C", visitor="won", attempt=None)
    rows = ("A", "B", step("X", exclude=True), "C")
    funnel = scene.funnel(*rows, conversionWindowSeconds=HOUR_S)
    report = scene.results(funnel)
    total = report["aggregate"]
    assert pick(total, "entered", "completed", "pending", "excluded") == (3, 1, 1, 1)
    assert total["finalRate"] == {"lower": 0.3333, "upper": 1.0}
    assert report["coverage"]["openWindows"] == 2


def test_each_run_of_a_visitor_settles_on_its_own(returning: Scene) -> None:
    funnel = returning.funnel("A", "B", "C", conversionWindowSeconds=HOUR_S, repeat=True)
    total = returning.results(funnel)["aggregate"]
    assert pick(total, "entered", "pending", "droppedOff", "settled") == (2, 1, 1, 1)
