"""The list of units: its filters, its order, and the file with the same units."""

import csv
import io
import re
from html import unescape

import pytest

from tests.cases import cases
from tests.web.reading import html_of, units_of


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
    href = unescape(re.search(r'download\s+href="([^"]*)"', list_html)[1])
    answer = workspace.browser.get(href)
    assert answer.status_code == 200, answer.text
    assert [row["unit"] for row in csv.DictReader(io.StringIO(answer.text))] == expected
    page = html_of(workspace, path, period="all", **query)
    assert "ignored" not in page
    for name, value in query.items():
        assert re.search(rf'name="{name}">[^£]*?<option value="{value}"\s+selected', page), name
