"""Reports apply segments and leave out internal traffic, and their pages say so."""

import json

import pytest

from tests.cases import questions_about_one_scene
from tests.funnels.test_internal_traffic import leave_out
from tests.funnels.test_segments import save
from tests.web.reading import html_of, link_of, text_of

pytestmark = pytest.mark.usefixtures("warehouse")

PRO = {"property": "plan", "operator": "equals", "value": "pro"}
GERMAN = {"property": "lang", "operator": "equals", "value": "de"}
STAFF = {"property": "staff", "operator": "is_true"}
PERIOD = {"period": "all", "timezone": "UTC"}


@pytest.fixture
def funnel(scene):
    scene.story("0/A 60/B", attempt="won", plan="pro", lang="de")
    scene.story("0/A", attempt="lost", plan="pro", lang="fr")
    scene.story("0/A", attempt="basic", plan="basic", lang="de")
    scene.story("0/A 60/B", attempt="test", plan="pro", lang="de", staff=True)
    return scene.attempts("A", "B")


@pytest.fixture
def segment(scene):
    return save(scene.client, {"name": "Paying", "filters": [PRO]})["id"]


def entered(workspace, funnel, **query):
    figures = text_of(workspace, f"/funnels/{funnel}", "overview", **PERIOD, **query)
    return int(figures.split(" entered")[0].split()[-1])


def the_menu_of_a_report_applies_a_segment(workspace, funnel, segment):
    page = html_of(workspace, f"/funnels/{funnel}", **PERIOD)
    href = link_of(page, "Paying")
    assert f"segment={segment}" in href
    chosen = text_of(workspace, href.partition("?")[0], **PERIOD, segment=segment)
    assert "Segment: Paying" in chosen
    assert entered(workspace, funnel, segment=segment) == 3
    units = text_of(workspace, f"/funnels/{funnel}/units", "list", **PERIOD, segment=segment)
    assert "won" in units
    assert "basic" not in units


def test_a_deleted_segment_can_be_removed_from_the_report(workspace, funnel, segment):
    workspace.client.delete(f"/api/segments/{segment}")
    page = html_of(workspace, f"/funnels/{funnel}", **PERIOD, segment=segment)
    assert "Deleted segment" in page
    assert "This segment was deleted" in page
    assert "Try again" not in page
    assert "segment" not in link_of(page, "Remove the segment")
    part = text_of(workspace, f"/funnels/{funnel}", "overview", **PERIOD, segment=segment)
    assert "There is no such segment in this workspace." in part


def a_report_without_entries_names_the_filters_as_the_cause(workspace, funnel):
    query = PERIOD | {"filters": json.dumps([{**PRO, "value": "nothing"}]), "period": "30d"}
    overview = text_of(workspace, f"/funnels/{funnel}", "overview", **query)
    assert "No attempts completed the first step in this period with these filters." in overview
    assert "Remove the filters" in overview
    assert "Show all time" not in overview


def the_filters_of_a_report_and_of_its_segment_are_saved_as_a_segment(workspace, funnel, segment):
    query = PERIOD | {"segment": segment, "filters": json.dumps([GERMAN])}
    page = html_of(workspace, f"/funnels/{funnel}", **query)
    assert "Save as segment" in page
    dialog = page.partition('id="save-segment"')[2]
    offered = dialog.partition('name="filters" value="[')[2]
    assert "plan" in offered.partition('"')[0]
    assert "lang" in offered.partition('"')[0]
    assert "segment={id}" in page
    assert "Save as segment" not in html_of(workspace, f"/funnels/{funnel}", **PERIOD)


def the_builder_gets_the_filters_of_the_segment(workspace, funnel, segment):
    query = {"from": funnel, "segment": segment, "filters": json.dumps([GERMAN])}
    page = html_of(workspace, "/funnels/new", **query)
    assert '"property":"plan"' in page
    assert '"property":"lang"' in page


def test_a_report_says_that_internal_traffic_is_left_out_and_switches_it(workspace, funnel):
    page = text_of(workspace, f"/funnels/{funnel}", **PERIOD)
    assert "Internal traffic left out" not in page
    leave_out(workspace.client, STAFF)
    page = html_of(workspace, f"/funnels/{funnel}", **PERIOD)
    assert "internal=true" in link_of(page, "Include")
    assert entered(workspace, funnel) == 3
    included = html_of(workspace, f"/funnels/{funnel}", **PERIOD, internal="true")
    assert "Internal traffic included" in included
    assert "internal" not in link_of(included, "Leave out")
    assert "Save as new" not in included, "there is nothing to save"
    assert entered(workspace, funnel, internal="true") == 4
    units = text_of(workspace, f"/funnels/{funnel}/units", **PERIOD)
    assert "Internal traffic left out" in units


def test_the_list_of_funnels_leaves_out_what_its_reports_leave_out(workspace, funnel):
    leave_out(workspace.client, STAFF)
    assert "leave out internal traffic" in text_of(workspace, "/funnels")
    row = text_of(workspace, f"/funnels/{funnel}/row", **PERIOD)
    assert "Entered 3" in row or " 3 " in row


def test_the_attribution_page_says_what_its_entries_contain(workspace, funnel):
    leave_out(workspace.client, STAFF)
    query = PERIOD | {"funnelId": funnel}
    figures = html_of(workspace, "/attribution", "figures", **query)
    assert "internal=true" in link_of(figures, "Include it")
    figures = text_of(workspace, "/attribution", "figures", **query, internal="true")
    assert "Entries include internal traffic" in figures


test_pages_of_a_report_with_a_segment_or_filters = questions_about_one_scene(
    the_menu_of_a_report_applies_a_segment,
    a_report_without_entries_names_the_filters_as_the_cause,
    the_filters_of_a_report_and_of_its_segment_are_saved_as_a_segment,
    the_builder_gets_the_filters_of_the_segment,
)
