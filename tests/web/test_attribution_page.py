"""The attribution page: its figures, and how it leads on."""

import re
from html import unescape

import pytest
from msgspec.json import decode

from tests import user_agents
from tests.funnels.scenario import Scene, step
from tests.records import create, new_website
from tests.tenant import visitor
from tests.web.reading import html_of, without_tags

pytestmark = pytest.mark.usefixtures("warehouse")


@pytest.fixture
def funnel(workspace, clock):
    scene = Scene(workspace, clock, ago_s=3600)
    page = {"type": "pageview", "path": "/", "visitorId": "ann", "timestamp": scene.at(0)}
    scene.track([{**page, "url": "https://shop.example/?utm_source=<b>mail"}])
    scene.story("1/A 2/B", visitor="ann")
    scene.story("1/A", visitor="bob")
    return scene.funnel(step("A"), "B", conversionWindowSeconds=86_400)


def figures_of(workspace, query):
    return html_of(workspace, f"/attribution?{query}", "figures")


def cells(text):
    """The text of each row's cells."""
    rows = re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL)
    return [
        [without_tags(cell) for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)]
        for row in rows
        if "<td" in row
    ]


def test_a_row_for_each_campaign_and_one_for_all(workspace, funnel):
    text = figures_of(workspace, f"funnelId={funnel}&sort=completed")
    assert cells(text) == [
        ["All", "", "0", "0", "–", "0"],
        ["All", "", "2", "1", "So far 50.0%"],
        ["&lt;b&gt;mail", "", "1", "1", "So far 100.0%"],
        ["Unknown", "", "1", "0", "So far 0.0%"],
    ]
    assert "Rates so far are final from" in without_tags(text)
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


def test_clicks_are_drawn_over_time_and_shown_as_a_table(workspace, server):
    link = {"name": "x", "slug": f"x-{workspace.website_id[-12:].lower()}", "utmSource": "<b>mail"}
    app_id = new_website(workspace.client, "App", "mobile")
    body = {**link, "destinationPath": "/", "websiteId": app_id}
    create(workspace.client, "/api/mobile/deferred-links", body)
    phone = visitor(server, {"User-Agent": user_agents.IOS["safari"]})
    for _ in range(2):
        phone.get(f"/l/{link['slug']}", follow_redirects=False)
    text = figures_of(workspace, "period=7d&timezone=UTC")
    chart = decode(unescape(re.search(r'data-chart="([^"]*)"', text)[1]))
    assert [(line["label"], sum(line["values"])) for line in chart["series"]] == [("<b>mail", 2)]
    table = text[text.index("Traffic over time") :]
    assert ["2", "2", "0", "0"] in [row[1:] for row in cells(table)]
    assert "clicks-trend" not in figures_of(workspace, "period=all")
