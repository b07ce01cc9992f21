"""Reports show what was asked of a funnel without saving it, and lead to its units and builder."""

import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest

from tests.cases import cases, questions_about_one_scene
from tests.web.reading import html_of, link_of, query_of, text_of, units_of

PRO = {"property": "plan", "operator": "equals", "value": "pro"}


@pytest.fixture
def funnel(scene):
    scene.story("0/A 60/B", attempt="won", plan="pro", lang="de")
    scene.story("0/A 7200/B", attempt="late", plan="pro", lang="fr")
    scene.story("0/A", attempt="lost", plan="basic", lang="de")
    return scene.attempts("A", "B", conversionWindowSeconds=86_400, breakdownProperties=["plan"])


def figures_and_cohorts_answer_the_question_of_the_address(workspace, funnel):
    question = {
        "period": "all",
        "filters": json.dumps([PRO]),
        "window": "1h",
        "breakdown": "lang",
    }
    figures = text_of(workspace, f"/funnels/{funnel}", "overview", **question)
    assert "50.0% 1 of 2 settled" in figures
    cohorts = text_of(workspace, f"/funnels/{funnel}", "detail", **question)
    assert "lang Entered" in cohorts
    page = text_of(workspace, f"/funnels/{funnel}", **question)
    assert "plan equals pro" in page
    assert "Window of 1 hour" in page
    assert "Saved: 1 day." in page
    assert "By lang" in page


def a_chip_removes_its_part_of_the_question(workspace, funnel):
    html = html_of(
        workspace, f"/funnels/{funnel}", filters=json.dumps([PRO, {**PRO, "value": "x"}])
    )
    href = re.search(r'href="([^"]*)"\s+aria-label="Remove the filter plan equals x"', html)[1]
    assert json.loads(query_of(href)["filters"]) == [PRO]


def an_empty_breakdown_hides_the_tabs_of_cohorts(workspace, funnel):
    path, question = f"/funnels/{funnel}", {"breakdown": "", "period": "all", "show": "trend"}
    page = text_of(workspace, path, **question)
    assert "Break down Property 1" in page
    part = html_of(workspace, path, "detail", **question)
    assert 'id="tab-cohorts"' not in part


def units_behind_a_number_keep_the_question(workspace, funnel):
    question = {"period": "all", "filters": json.dumps([PRO]), "window": "1h"}
    html = html_of(workspace, f"/funnels/{funnel}", "overview", **question)
    href = next(
        unescape(href)
        for href in re.findall(r'href="([^"]*/units\?[^"]*)"', html)
        if "step=2" in href and "outcome" not in href
    )
    assert units_of(html_of(workspace, href, "list")) == ["won"]


def last_seven_settled_days_end_before_the_first_day_with_open_units(workspace, funnel, clock):
    page = html_of(workspace, f"/funnels/{funnel}", "overview", period="settled")
    query = query_of(re.search(r"/api/funnels/[^' ]*/results\?[^' ]*", unescape(page))[0])
    start, end = (datetime.fromisoformat(query[name]) for name in ("startAt", "endAt"))
    now = datetime.fromtimestamp(clock() / 1000, UTC)
    assert end - start == timedelta(days=7)
    assert end == end.replace(hour=0, minute=0, second=0, microsecond=0)
    assert timedelta(0) <= now - timedelta(days=1) - end < timedelta(days=1)


def test_a_funnel_without_a_window_offers_no_settled_days(workspace, scene, funnel):
    assert "Last 7 settled days" in text_of(workspace, f"/funnels/{funnel}")
    endless = scene.funnel("A", "B")
    assert "Last 7 settled days" not in text_of(workspace, f"/funnels/{endless}")


@cases("text", ["Save", "Save as new"])
def test_saving_opens_the_builder_with_the_question(workspace, funnel, text):
    html = html_of(
        workspace,
        f"/funnels/{funnel}",
        filters=json.dumps([PRO]),
        window="90m",
        breakdown="lang",
        settled="true",
    )
    builder = unescape(workspace.browser.get(link_of(html, text)).text)
    assert (
        '"breakdownProperties": ["lang"]' in builder or '"breakdownProperties":["lang"]' in builder
    )
    assert re.search(r'"conversionWindow": ?\{"value": ?90, ?"unit": ?"minute"\}', builder)
    first = re.search(r'"steps": ?\[(\{.*?\})', builder)[1]
    assert '"plan"' in first
    saved = workspace.client.get(f"/api/funnels/{funnel}").json()
    assert saved["breakdownProperties"] == ["plan"]


test_pages_of_a_report_with_a_question = pytest.mark.usefixtures("warehouse")(
    questions_about_one_scene(
        figures_and_cohorts_answer_the_question_of_the_address,
        a_chip_removes_its_part_of_the_question,
        an_empty_breakdown_hides_the_tabs_of_cohorts,
        units_behind_a_number_keep_the_question,
        last_seven_settled_days_end_before_the_first_day_with_open_units,
    )
)


@pytest.mark.usefixtures("warehouse")
def test_a_breakdown_can_use_the_values_of_another_step(workspace, scene):
    scene.track([scene.item(0, "A", "ann", plan="free"), scene.item(60, "B", "ann", plan="pro")])
    funnel = scene.funnel("A", "B", breakdownProperties=["plan"])
    path = f"/funnels/{funnel}?period=all&show=cohorts"
    assert "free 1" in text_of(workspace, path, "detail")
    text = text_of(workspace, f"{path}&breakdownAt=2", "detail")
    assert "plan at step 2" in text
    assert "pro 1" in text
    page = workspace.browser.get(f"{path}&breakdownAt=2").text
    assert "plan at step 2" in page
    assert '<option value="2" selected>' in page
