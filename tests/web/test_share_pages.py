"""The page that shares a report, and the list of shared reports."""

import json
import re
from html import unescape

import pytest

from tests.records import create
from tests.web.reading import html_of, link_of, query_of, text_of

pytestmark = pytest.mark.usefixtures("warehouse")


@pytest.fixture
def funnel(scene):
    scene.story("0/A 60/B", visitor="ann")
    return scene.funnel("A", "B", name="Checkout", conversionWindowSeconds=3600)


def parameters_of(html):
    """Return the selections that the form offers."""
    values = re.findall(r'<option value="(\{[^"]*)"', html) or re.findall(
        r'name="parameters" value="([^"]*)"', html
    )
    return [json.loads(unescape(value)) for value in values]


def test_the_menu_of_a_report_shares_its_selection(workspace, funnel):
    html = html_of(workspace, f"/funnels/{funnel}?period=7d&timezone=UTC&breakdown=plan&page=2")
    href = link_of(html, "Share")
    assert query_of(href) == {"period": "7d", "timezone": "UTC", "breakdown": "plan"}
    relative, fixed = parameters_of(html_of(workspace, href))
    assert relative == {"period": "7d", "timezone": "UTC", "breakdown": "plan"}
    assert fixed.keys() == {"startAt", "endAt", "timezone", "breakdown"}
    for parameters in (relative, fixed):
        create(workspace.client, "/api/shares", {"funnelId": funnel, "parameters": parameters})
    text = text_of(workspace, href, "shares")
    assert "Last 7 days" in text
    assert text.count("Checkout") == 4  # two rows, and the dialogs that revoke them


def test_a_past_revision_and_an_absolute_period(workspace, funnel):
    query = "revision=1&period=custom&start=2026-01-01&end=2026-01-31&timezone=UTC"
    [only] = parameters_of(html_of(workspace, f"/funnels/{funnel}/share?{query}"))
    expected = {"period": "custom", "start": "2026-01-01", "end": "2026-01-31", "timezone": "UTC"}
    assert only == expected


def test_the_settings_list_all_shared_reports(workspace, funnel):
    assert "No shared reports" in text_of(workspace, "/settings/shares")
    share = create(workspace.client, "/api/shares", {"funnelId": funnel, "expiresAt": None})
    html = html_of(workspace, "/settings/shares")
    assert f'action="/api/shares/{share["id"]}"' in html
    assert "Never" in text_of(workspace, "/settings/shares", "shares")
