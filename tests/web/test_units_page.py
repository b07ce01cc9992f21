"""The list of units: its filters, its order, and the file with the same units."""

import csv
import io
import re

import pytest

from penstock.web.rendering import utc_time
from tests.cases import cases
from tests.funnels.scenario import HOUR_S, Scene, step
from tests.web.reading import html_of, link_of, text_of, units_of, without_tags


@pytest.fixture
def funnel(scene):
    scene.story("0/A 60/B 900/other", attempt="won")
    scene.story("10/A", attempt="lost")
    scene.story("20/A 700/other", attempt="left")
    return scene.attempts("A", "B")


OTHER_ORDERS = pytest.mark.full("other orders")


@pytest.mark.usefixtures("warehouse")
@cases(
    ("query", "expected"),
    [
        ({}, ["left", "lost", "won"]),
        pytest.param({"order": "asc"}, ["won", "lost", "left"], marks=OTHER_ORDERS),
        pytest.param({"sort": "completion"}, ["won", "left", "lost"], marks=OTHER_ORDERS),
        pytest.param({"sort": "lastActivity"}, ["won", "left", "lost"], marks=OTHER_ORDERS),
        ({"outcome": "droppedOff", "sort": "lastActivity", "order": "asc"}, ["lost", "left"]),
        ({"step": "2", "outcome": ""}, ["won"]),
    ],
)
def test_a_list_and_its_file_have_the_units_of_the_address_in_its_order(
    workspace, funnel, query, expected
):
    path = f"/funnels/{funnel}/units"
    list_html = html_of(workspace, path, "list", period="all", **query)
    assert units_of(list_html) == expected
    href = link_of(list_html, "Export")
    assert "asOf=" in href
    answer = workspace.browser.get(href)
    assert answer.status_code == 200, answer.text
    assert [row["unit"] for row in csv.DictReader(io.StringIO(answer.text))] == expected
    page = html_of(workspace, path, period="all", **query)
    beside = re.search(r'<div class="actions">(.*?)</div>', page, re.DOTALL)[1]
    assert without_tags(beside) == "Export Save as cohort"
    assert "ignored" not in page
    for name, value in query.items():
        box = rf'name="{name}"\s+value="{value}" checked'
        option = rf'name="{name}">[^£]*?<option value="{value}"\s+selected'
        assert not value or re.search(f"{box}|{option}", page), name


@pytest.mark.usefixtures("warehouse")
def test_a_list_has_any_choice_of_outcomes_and_steps(scene, workspace):
    for attempt, story in (("a", "0/A"), ("ab", "1/A 2/B"), ("abc", "3/A 4/B 5/C")):
        scene.story(story, attempt=attempt)
    path = f"/funnels/{scene.attempts('A', 'B', 'C')}/units"

    def listed(query, title):
        address = f"{path}?period=all&sort=entry&order=asc&{query}"
        page = html_of(workspace, address)
        assert f"<bdi>{title}</bdi>" in page
        list_html = html_of(workspace, address, "list")
        file = workspace.browser.get(link_of(list_html, "Export")).text
        units = units_of(list_html)
        assert [row["unit"] for row in csv.DictReader(io.StringIO(file))] == units
        return units

    sent = "outcome=pending&outcome=droppedOff&step=1&step=2"  # by the form of the page
    both = "Attempts pending or dropped off at step 1 or 2"
    assert listed(sent, both) == listed("outcome=pending,droppedOff&step=1,2", both) == ["a", "ab"]
    completed = "outcome=completed,droppedOff"
    assert listed(f"{completed}&step=2", "Attempts completed or dropped off at step 2") == [
        "ab",
        "abc",
    ]
    assert listed(completed, "Attempts completed or dropped off") == ["a", "ab", "abc"]
    assert listed("step=2,3", "Attempts that reached step 2 or 3") == ["ab", "abc"]
    menu = html_of(workspace, f"{path}?period=all&{sent}").partition('id="outcomes"')[2]
    assert "Pending, Dropped off, step 1, 2" in without_tags(menu)
    unknown = "outcome=won,lost"  # ignored, with a notice
    assert len(listed(unknown, "Attempts that entered")) == 3


@pytest.fixture
def person(scene, workspace):
    """The user of all stories, named by the trait `email`."""
    scene.identify("u-1", "ann", traits={"email": "ann@example.com"})
    workspace.client.patch("/api/settings/workspace", json={"personTrait": "email"})


@pytest.mark.usefixtures("warehouse", "person")
def test_pages_show_people_and_not_ids(scene, workspace, funnel):
    attempts = html_of(workspace, f"/funnels/{funnel}/units", "list", period="all")
    assert units_of(attempts) == ["ann@example.com"] * 3
    assert re.findall(r'<bdi class="sub">(.*?)</bdi>', attempts) == ["left", "lost", "won"]
    visitors = f"/funnels/{scene.funnel('A', 'B')}/units"
    assert units_of(html_of(workspace, visitors, "list", period="all")) == ["ann@example.com"]
    trace = html_of(workspace, f"{visitors}/ann", "timeline", period="all")
    assert '<bdi id="unit-name" hx-swap-oob="true">ann@example.com</bdi>' in trace
    for path in ("/visitors?days=400", "/visitors/ann", "/live"):
        assert "ann@example.com" in text_of(workspace, path), path


@pytest.mark.usefixtures("warehouse")
def test_a_trace_begins_with_its_reason(scene, workspace, clock):
    young = Scene(workspace, clock, ago_s=600)
    scene.story("0/A 60/B", attempt="won")
    scene.story("10/A", attempt="lost")
    scene.story("20/A 40/stop 50/B", attempt="stopped")
    young.story("0/A", attempt="young", visitor="ben")
    scene.story("0/B", attempt="late")
    attempts = scene.attempts("A", step("stop", exclude=True), "B")
    for funnel, unit, expected in (
        (attempts, "won", "Completed: B on "),
        (attempts, "lost", f"Dropped: no B until {_day(scene, 10 + HOUR_S)}"),
        (attempts, "stopped", f"Excluded: stop after A on {_day(scene, 40)}"),
        (attempts, "young", "Pending: no B so far; the window ends on "),
        (attempts, "late", "Did not enter: no A Not in this report The attempt never"),
        (scene.funnel("A", "B"), "ben", "Not converted: no B so far Entered"),
    ):
        text = text_of(workspace, f"/funnels/{funnel}/units/{unit}", "timeline", period="all")
        assert text.startswith(expected), text[:120]


def _day(scene, second):
    """The day of a second of the stories, as pages write it."""
    return utc_time(scene.start_ms + second * 1000).partition(",")[0]
