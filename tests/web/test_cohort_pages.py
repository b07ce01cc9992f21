"""Pages of saved cohorts: the list, one cohort with its visitors, and the menu of a report."""

import json
import re
from html import unescape

import pytest

from tests.cases import cases
from tests.records import create
from tests.web.reading import html_of, link_of, text_of, units_of

pytestmark = pytest.mark.usefixtures("warehouse")


@pytest.fixture
def funnel(scene):
    scene.story("0/A 60/B", visitor="ann")
    scene.story("10/A", visitor="bob")
    return scene.funnel("A", "B", conversionWindowSeconds=3600)


@pytest.fixture
def save(workspace, funnel):
    def save(**more):
        body = {"name": "Lost", "kind": "list", "funnelId": funnel, **more}
        body.setdefault("parameters", {"step": "1", "outcome": "droppedOff"})
        return create(workspace.client, "/api/cohorts", body)["id"]

    return save


@cases("kind", ["list", "rule"])
def test_the_page_of_a_list_saves_the_units_that_it_shows(workspace, funnel, save, kind):
    question = {"period": "all", "step": "1", "outcome": "droppedOff", "sort": "lastActivity"}
    html = html_of(workspace, f"/funnels/{funnel}/units", **question)
    parameters = json.loads(unescape(re.search(r'data-as="json"\s+value="([^"]*)"', html)[1]))
    assert parameters == {"step": "1", "outcome": "droppedOff", "sort": "lastActivity"}
    cohort = save(name=kind, kind=kind, parameters=parameters)
    text = text_of(workspace, f"/cohorts/{cohort}", "list")
    assert "bob" in text
    assert "ann" not in text


def test_the_page_of_a_cohort_leads_to_its_list_of_units(workspace, funnel, save):
    html = html_of(workspace, f"/cohorts/{save()}")
    href = link_of(html, "a list of Scenario")
    assert href.startswith(f"/funnels/{funnel}/units?period=all")
    assert units_of(html_of(workspace, href, "list")) == ["bob"]
    workspace.client.delete(f"/api/funnels/{funnel}")
    assert "a funnel that was deleted" in text_of(workspace, f"/cohorts/{save_id(workspace)}")


def save_id(workspace):
    [record] = workspace.client.get("/api/cohorts").json()["data"]
    return record["id"]


def test_the_menu_of_a_report_lists_cohorts_and_a_chip_removes_one(workspace, funnel, save):
    save()
    html = html_of(workspace, f"/funnels/{funnel}", period="all")
    filters = html.partition('data-asks="filters"')[2]
    filtered = link_of(filters, "Lost")
    page = workspace.browser.get(filtered).text
    assert "in cohort Lost" in page
    figures = html_of(workspace, filtered, "overview")
    assert re.search(r'id="entered"[^>]*>\s*<?[^<]*1', figures)
    rest = re.search(r'href="([^"]*)"\s+aria-label="Remove the filter in cohort Lost"', page)[1]
    assert "filters" not in rest
    workspace.client.delete(f"/api/cohorts/{save_id(workspace)}")
    page = workspace.browser.get(filtered).text
    assert "in a deleted cohort" in page
    assert "This cohort was deleted" in page
    assert "filters" not in link_of(page, "Remove the cohort")


def test_the_list_of_cohorts_has_the_number_of_their_visitors(workspace, save):
    assert "No cohorts yet" in text_of(workspace, "/cohorts")
    save()
    save(name="Always lost", kind="rule")
    text = text_of(workspace, "/cohorts")
    assert "Lost List 1" in text
    assert "Always lost Rule Counted when used" in text
    assert "No matching cohorts" in text_of(workspace, "/cohorts", search="nothing")
