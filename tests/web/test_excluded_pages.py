"""Each part of a report shows the units that the funnel excludes."""

import pytest

from tests.cases import cases, questions_about_one_scene
from tests.funnels.scenario import step
from tests.web.reading import html_of, text_of, without_tags

pytestmark = pytest.mark.usefixtures("warehouse")


@pytest.fixture
def funnel(scene):
    """One attempt completed, two were excluded and one dropped off."""
    scene.story("0/A 60/B", attempt="won", plan="pro")
    scene.story("0/A 30/X 40/D", attempt="out 1", plan="pro")
    scene.story("0/A 30/X 60/B", attempt="out 2", plan="basic")
    scene.story("0/A", attempt="lost", plan="pro")
    rows = ("A", step("X", exclude=True), "B")
    return scene.attempts(*rows, breakdownProperties=["plan"])


def figures_and_bars(workspace, funnel):
    page = html_of(workspace, f"/funnels/{funnel}?period=all&breakdown=", "overview")
    text = without_tags(page)
    assert "50.0% 1 of 2 settled" in text
    assert ", 2 excluded" in text
    assert "2 excluded by X" in text
    assert "1 lost ( 50.0% )" in text
    assert '<rect class="excluded" x="50.0000%" width="50.0000%"' in " ".join(page.split())


def test_bars_name_each_reason_for_an_exclusion(workspace, scene):
    scene.story("0/A 30/A 60/B", attempt="out of order")
    funnel = scene.attempts("A", step("X", "Y", exclude=True), step("B", strict=True))
    text = text_of(workspace, f"/funnels/{funnel}?period=all", "overview")
    assert "1 excluded by X or Y or another step out of order" in text


@cases(
    ("show", "shown"),
    [
        ("cohorts", "basic 1 – 0 0 0 1 –"),
        pytest.param("trend", "Excluded", marks=pytest.mark.full("other parts")),
        pytest.param("compare&property=plan", "Excluded", marks=pytest.mark.full("other parts")),
        ("next&step=1&outcome=excluded", "D Event 1 50.0%"),
    ],
)
def test_details(workspace, funnel, show, shown):
    text = text_of(workspace, f"/funnels/{funnel}?period=all&show={show}", "detail")
    assert shown in text


def the_list_of_excluded_units(workspace, funnel):
    text = text_of(workspace, f"/funnels/{funnel}/units?period=all&outcome=excluded&step=1", "list")
    assert "out 1" in text
    assert "out 2" in text
    assert "won" not in text
    assert text_of(workspace, f"/funnels/{funnel}/units/out%201?period=all", "timeline")


test_pages_of_a_funnel_with_excluded_units = questions_about_one_scene(
    figures_and_bars,
    the_list_of_excluded_units,
)
