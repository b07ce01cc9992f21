"""Pages show rates of settled units, and never call an open unit lost."""

import re
from html import unescape

import pytest
from msgspec.json import decode

from penstock.base.clock import parse_time
from tests.cases import cases, questions_about_one_scene
from tests.funnels.scenario import DAY_S, Scene
from tests.web.reading import html_of, text_of, without_tags

pytestmark = pytest.mark.usefixtures("warehouse")

WEEK_S = 7 * DAY_S


@pytest.fixture
def scene(workspace, clock):
    """Ten days of attempts with a window of seven days: see each test."""
    return Scene(workspace, clock, ago_s=10 * DAY_S)


@pytest.fixture
def funnel(scene):
    """Four settled attempts, of which one completed; one early completion; one in progress."""
    scene.story("0/A 60/B", attempt="won", plan="pro")
    for number in range(3):
        scene.story("0/A", attempt=f"lost {number}", plan="pro")
    later = 8 * DAY_S
    scene.story(f"{later}/A {later + 60}/B", attempt="early", plan="new")
    scene.story(f"{later}/A", attempt="open", plan="new")
    return scene.attempts("A", "B", conversionWindowSeconds=WEEK_S, breakdownProperties=["plan"])


def the_figures_show_the_rate_of_settled_attempts_and_the_others_apart(workspace, funnel):
    text = text_of(workspace, f"/funnels/{funnel}?period=all&breakdown=", "overview")
    assert "25.0% 1 of 4 settled 1 in progress, 1 done early 6 entered" in text
    assert "3 lost ( 75.0% ) Event 2 continued" in text
    assert "3 dropped off: What came next , What differs" in text


def seven_days_of_a_seven_day_window_show_the_rate_so_far(workspace, funnel, clock):
    page = html_of(workspace, f"/funnels/{funnel}?period=7d", "overview")
    text = without_tags(page)
    assert "So far 50.0% 1 of 2 attempts, final from" in text
    assert "0 dropped off" not in text
    assert "of settled" not in text
    # The last attempt entered two days ago, so its window ends in five days.
    [final] = re.findall(r'final from <time datetime="([^"]*)"', page)
    assert parse_time(final) == pytest.approx(clock() + 5 * DAY_S * 1000, abs=120_000)


@cases("bars", ["overall", pytest.param("steps", marks=pytest.mark.full("the other scale"))])
def test_the_hatched_part_equals_the_number_beside_it(workspace, scene, bars):
    later = 8 * DAY_S
    scene.story("0/A 60/B 90/C", attempt="won")
    scene.story(f"{later}/A", attempt="at A")
    scene.story(f"{later}/A {later + 60}/B", attempt="at B")
    funnel = scene.attempts("A", "B", "C", conversionWindowSeconds=WEEK_S)
    path = f"/funnels/{funnel}?period=all&bars={bars}"
    [_, *steps] = html_of(workspace, path, "overview").split('<li class="step"')
    whole = {"overall": [3, 3, 3], "steps": [3, 3, 2]}[bars]
    for step, units in zip(steps[1:], whole[1:], strict=True):
        hatched = re.search(r'class="pending"[^>]*\swidth="([\d.]+)%"', step)
        beside = re.search(r'class="may-reach">(.*?)</span>', step, re.DOTALL)
        assert hatched
        assert beside
        number = int(re.sub(r"<[^>]+>", "", beside[1]))
        assert float(hatched[1]) == pytest.approx(100 * number / units, abs=0.001)


def a_row_of_the_list_shows_the_settled_rate(workspace, funnel):
    assert "25.0%" in text_of(workspace, f"/funnels/{funnel}/row")
    young = text_of(workspace, f"/funnels/{funnel}/row?period=7d")
    assert "So far 50.0% final from" in young


def the_settled_period_of_a_row_leaves_out_open_attempts(workspace, funnel):
    text = text_of(workspace, f"/funnels/{funnel}/row?period=settled&timezone=UTC")
    assert "4 25.0%" in text


def open_days_of_a_row_show_the_bounds_that_they_can_reach(workspace, funnel):
    row = workspace.browser.get(f"/funnels/{funnel}/row?timezone=UTC").text
    [series] = decode(unescape(re.search(r'data-chart="([^"]*)"', row)[1]))["series"]
    lower, upper = ([rate for rate in series[name] if rate] for name in ("least", "most"))
    # At least one of the two attempts converts, and at most both of them.
    assert (lower, upper) == ([0.5], [1])


def cohorts_show_settled_rates_and_the_rate_so_far_where_nothing_is_settled(workspace, funnel):
    path = f"/funnels/{funnel}?period=all&show=cohorts"
    text = text_of(workspace, path, "detail")
    assert "pro 4 25.0%" in text
    assert "new 2 So far 50.0%" in text


def open_buckets_of_a_trend_show_the_bounds_that_they_can_reach(workspace, funnel):
    path = f"/funnels/{funnel}?period=30d&show=trend"
    assert "50.0% to 100.0%" in text_of(workspace, path, "detail")


def a_comparison_is_over_settled_attempts(workspace, funnel):
    path = f"/funnels/{funnel}?period=all&show=compare"
    page = html_of(workspace, path, "detail")
    text = without_tags(page)
    assert re.findall(r"swatch (series-\d)", page) == ["series-1", "series-2"]  # as in the bars
    assert "shares of settled attempts" in text
    assert "25.0%" in text
    assert "So far 50.0% None settled yet" in text
    assert "count as not converted" not in text


def lists_and_traces_say_that_the_window_of_a_completed_attempt_is_open(workspace, funnel):
    path = f"/funnels/{funnel}/units"
    units = text_of(workspace, path, "list", period="all", outcome="completed")
    assert units.count("Step 2 of 2 Completed") == 2
    assert units.count("Step 2 of 2 Completed, window open") == 1
    assert "Completed, window open: B on" in text_of(workspace, f"{path}/early", "timeline")
    assert "Completed: B on" in text_of(workspace, f"{path}/won", "timeline")


def test_without_a_window_rates_count_everyone_and_a_note_says_so(workspace, scene):
    scene.story("0/A 60/B", visitor="ann")
    scene.story("0/A", visitor="bob")
    text = text_of(workspace, f"/funnels/{scene.funnel('A', 'B')}?period=all", "overview")
    assert "50.0% 1 of 2 visitors 1 not converted 2 entered" in text
    assert "settled" not in text
    assert "This funnel has no conversion window." in text


test_pages_of_a_funnel_with_settled_and_open_attempts = questions_about_one_scene(
    the_figures_show_the_rate_of_settled_attempts_and_the_others_apart,
    seven_days_of_a_seven_day_window_show_the_rate_so_far,
    a_row_of_the_list_shows_the_settled_rate,
    the_settled_period_of_a_row_leaves_out_open_attempts,
    open_days_of_a_row_show_the_bounds_that_they_can_reach,
    cohorts_show_settled_rates_and_the_rate_so_far_where_nothing_is_settled,
    open_buckets_of_a_trend_show_the_bounds_that_they_can_reach,
    a_comparison_is_over_settled_attempts,
    lists_and_traces_say_that_the_window_of_a_completed_attempt_is_open,
)
