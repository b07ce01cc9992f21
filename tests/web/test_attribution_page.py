"""The attribution page: its figures, and how it leads on."""

import re

import pytest

from tests.funnels.scenario import Scene, step


@pytest.fixture
def funnel(workspace, clock):
    scene = Scene(workspace, clock, ago_s=3600)
    page = {"type": "pageview", "path": "/", "visitorId": "ann", "timestamp": scene.at(0)}
    scene.track([{**page, "url": "https://shop.example/?utm_source=<b>mail"}])
    scene.story("1/A 2/B", visitor="ann")
    scene.story("1/A", visitor="bob")
    return scene.funnel(step("A"), "B", conversionWindowSeconds=86_400)


def figures_of(workspace, query):
    headers = {"HX-Request": "true", "HX-Target": "figures"}
    answer = workspace.browser.get(f"/attribution?{query}", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.text


def cells(text):
    """The text of each row's cells."""
    rows = re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL)
    return [
        [
            re.sub(r"<[^>]+>", "", cell).strip()
            for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)
        ]
        for row in rows
        if "<td" in row
    ]


def test_a_row_for_each_campaign_and_one_for_all(workspace, funnel):
    text = figures_of(workspace, f"funnelId={funnel}&sort=completed")
    assert cells(text) == [
        ["All", "", "0", "0", "–", "0"],
        ["All", "", "2", "1", "–"],
        ["&lt;b&gt;mail", "", "1", "1", "–"],
        ["Unknown", "", "1", "0", "–"],
    ]
    [csv] = re.findall(r'href="(/api/attribution/export\?[^"]*format=csv)"', text)
    exported = workspace.browser.get(csv.replace("&amp;", "&"))
    assert exported.text.splitlines()[1] == '"total",,0,0,0,2,1,1,0,0,0.5,0,,1'


def test_without_a_conversion_window_nobody_is_called_pending(workspace, clock):
    scene = Scene(workspace, clock, ago_s=3600)
    scene.story("1/A", visitor="bob")
    text = figures_of(workspace, f"funnelId={scene.funnel(step('A'), 'B')}")
    assert "no conversion window. Unfinished visitors may still convert at any time." in text
    assert "pending" not in re.sub(r"<[^>]+>", "", text)


def test_the_page_names_what_it_cannot_use_and_asks_for_no_numbers_of_an_invalid_period(workspace):
    page = workspace.browser.get("/attribution?groupBy=term&websiteId=web_x")
    assert page.status_code == 200
    assert "groupBy" in page.text
    assert workspace.browser.get("/attribution?funnelId=fun_x").status_code == 404
    invalid = "period=custom&start=2026-05-05&end=2026-05-01"
    assert "must not be before" in figures_of(workspace, invalid)
